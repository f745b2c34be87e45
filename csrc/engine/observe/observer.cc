#include "engine/observe/observer.h"

#include <algorithm>
#include <cctype>

#include "engine/list.h"
#include "engine/shapes.h"

namespace hvdlite::engine {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// "SHM_ALLREDUCE"
std::string Activity(const char* communicator, OpKind kind) {
  std::string text;
  for (const char* c = communicator; *c != '\0'; ++c) text += static_cast<char>(toupper(*c));
  return text + "_" + std::string(TimelineName(kind));
}

std::string Escaped(const char* text) {
  std::string out;
  for (; *text != '\0'; ++text) {
    const unsigned char c = static_cast<unsigned char>(*text);
    if (c == '"' || c == '\\') out += '\\';
    out += c < 0x20 ? ' ' : static_cast<char>(c);
  }
  return out;
}

std::string Seconds(Nanos span) {
  char text[32];
  snprintf(text, sizeof(text), "%.6f", static_cast<double>(span) / static_cast<double>(kSecond));
  return text;
}

// Carriers without a batch are left out.
std::string Carriers(const comm::CarrierCounts& carrier_counts) {
  std::string out;
  for (int c = 0; c < comm::kCarrierCount; ++c) {
    const auto carrier = static_cast<comm::Carrier>(c);
    std::string kinds;
    for (int k = 0; k < kOpKindCount; ++k) {
      const auto kind = static_cast<OpKind>(k);
      const uint64_t count = carrier_counts.By(carrier, kind);
      if (count == 0) continue;
      kinds += (kinds.empty() ? "\"" : ", \"") + std::string(Name(kind)) +
               "\": " + std::to_string(count);
    }
    if (kinds.empty()) continue;
    out += (out.empty() ? "\"" : ", \"") + std::string(comm::Name(carrier)) + "\": {" + kinds + "}";
  }
  return out;
}

// Nothing where nothing is allocated in shared memory.
std::string Gradients(const std::optional<pool::Stats>& pool) {
  if (!pool || pool->bytes + pool->misses == 0) return "";
  return ", \"gradient_pool\": {\"hits\": " + std::to_string(pool->hits) +
         ", \"misses\": " + std::to_string(pool->misses) +
         ", \"live\": " + std::to_string(pool->live) +
         ", \"bytes\": " + std::to_string(pool->bytes) + "}";
}

// Nothing unless tensors go through several interfaces.
std::string Interfaces(const std::deque<comm::Interface>* interfaces) {
  if (interfaces == nullptr || interfaces->empty()) return "";
  std::string out;
  for (const comm::Interface& one : *interfaces) {
    out += (out.empty() ? "\"" : ", \"") + Escaped(one.origin.interface.c_str()) +
           "\": {\"sent\": " + std::to_string(one.traffic.sent.load(kRelaxed)) +
           ", \"received\": " + std::to_string(one.traffic.received.load(kRelaxed)) + "}";
  }
  return ", \"interfaces\": {" + out + "}";
}

// Adds the set, because several process sets may use the same name at the same time.
std::string Shown(const ProcessSet& set, const std::string& name) {
  return set.id == 0 ? name : name + " (process set " + std::to_string(set.id) + ")";
}

// The reason for the algorithm, for the timeline. A barrier or a join has none: the agreement
// completes it.
std::string How(const ProcessSet& set, const Running& running) {
  const comm::Batch& batch = running.batch;
  if (!HasTensor(batch.kind)) return "";
  const std::string why = set.in_flight.Carries(running) ? set.in_flight.why() : set.group->why;
  return "{\"communicator\": \"" + Escaped(why.c_str()) + "\", \"algorithm\": \"" +
         Escaped(running.communicator->Explain(batch).c_str()) + "\"}";
}

}  // namespace

Observer::Observer(const Config& config, int rank, const Logger* log)
    : rank_(rank),
      all_write_(config.timeline_ranks == "all"),
      timeline_(config.timeline_megabytes << 20, log),
      recorder_(static_cast<size_t>(std::max<int64_t>(config.recorder_entries, 0))) {}

void Observer::Announced(const ProcessSet& set, const Entry& entry, bool by_slot, Nanos now) {
  (by_slot ? slots_ : requests_).fetch_add(1, kRelaxed);
  // The root sees its own requests with those of all others.
  if (!timeline_.on() || set.agreement->is_root()) return;
  for (size_t i = 0; i < TensorsOf(entry.request); ++i)
    Arrived(set, {TensorName(entry.request, i), entry.request.kind, set.group->me, now});
}

void Observer::Arrived(const ProcessSet& set, const Ledger::Arrival& arrival) {
  if (!timeline_.on() || Has(arrival.kind, kAboutJob)) return;
  timeline_.Arrive(Shown(set, arrival.name), "NEGOTIATE_" + std::string(TimelineName(arrival.kind)),
                   set.ranks[static_cast<size_t>(arrival.member)], arrival.at);
}

void Observer::Began(const ProcessSet& set, const Running& running, Nanos now) {
  for (const Entry* entry : running.entries) {
    if (entry != nullptr) negotiating_.Add(entry->submitted, now);
  }
  if (!timeline_.on()) return;
  // A joined rank takes part in operations that it has not asked for.
  for (const Response& response : running.responses) {
    const OpKind kind = response.agreed->request.kind;
    if (Has(kind, kAboutJob)) continue;
    for (size_t i = 0; i < TensorsOf(response.agreed->request); ++i) {
      const std::string name = Shown(set, TensorName(response.agreed->request, i));
      timeline_.Agree(name, now);
      timeline_.Begin(name, std::string(TimelineName(kind)), now);
      timeline_.Begin(name, Activity(running.communicator->name(), kind), now);
    }
  }
}

void Observer::Ended(const ProcessSet& set, const Running& running, Nanos now) {
  batches_.fetch_add(1, kRelaxed);
  if (running.batch.pieces.size() > 1) fused_.fetch_add(1, kRelaxed);
  if (running.batch.device.kind != DeviceKind::kHost) batches_on_gpu_.fetch_add(1, kRelaxed);
  moving_.Add(running.started, now);
  const char* const communicator = running.communicator->name();
  for (size_t i = 0; i < running.entries.size(); ++i) {
    const Entry* const entry = running.entries[i];
    if (entry == nullptr) continue;
    Record record;
    record.communicator = communicator;
    record.batch_size = static_cast<uint32_t>(running.batch.pieces.size());
    record.submitted = entry->submitted;
    record.agreed = running.started;
    record.done = now;
    const Agreed& agreed = *running.responses[i].agreed;
    if (running.TensorOf(i) >= 0) {
      Performed(set, agreed.request, static_cast<size_t>(ResultBytes(agreed)), record);
    } else if (entry->request.is_list()) {
      PerformedList(set, entry->request, record);
    } else {
      Performed(set, entry->request, entry->output.bytes(), record);
    }
  }
  if (timeline_.on()) ShowEnd(set, running, now);
}

void Observer::TookFastPath(const ProcessSet& set, const Request& request, size_t bytes,
                            comm::Carrier carrier, Nanos asked, Nanos now) {
  slots_.fetch_add(1, kRelaxed);
  batches_.fetch_add(1, kRelaxed);
  negotiating_.Add(asked, now);
  Record record;
  record.communicator = carrier == comm::Carrier::kShmFastPath ? "shm" : "net";
  record.batch_size = 1;
  record.submitted = asked;
  record.agreed = record.done = now;
  Performed(set, request, bytes, record);
}

void Observer::Performed(const ProcessSet& set, const Request& request, size_t bytes,
                         Record record) {
  operations_.fetch_add(1, kRelaxed);
  bytes_.fetch_add(bytes, kRelaxed);
  record.set = set.id;
  record.kind = request.kind;
  record.dtype = request.dtype;
  record.bytes = static_cast<int64_t>(bytes);
  recorder_.Add(record, request.name);
}

void Observer::PerformedList(const ProcessSet& set, const Request& list, Record record) {
  lists_.fetch_add(1, kRelaxed);
  record.set = set.id;
  record.kind = list.kind;
  record.dtype = list.dtype;
  size_t i = 0;
  ForEachInList(list, [&](const int64_t* shape, size_t dimensions) {
    record.bytes = static_cast<int64_t>(SizeOf(list.dtype));
    for (size_t d = 0; d < dimensions; ++d) record.bytes *= shape[d];
    bytes_.fetch_add(static_cast<size_t>(record.bytes), kRelaxed);
    recorder_.Add(record, NameInList(list, i++));
  });
  operations_.fetch_add(i, kRelaxed);
}

void Observer::ShowEnd(const ProcessSet& set, const Running& running, Nanos now) {
  const std::string how = How(set, running);
  for (size_t i = 0; i < running.responses.size(); ++i) {
    const Entry* entry = running.entries[i];
    const Request& asked = entry != nullptr && running.TensorOf(i) < 0
                               ? entry->request
                               : running.responses[i].agreed->request;
    for (size_t t = 0; t < TensorsOf(asked); ++t) {
      const Request& request = asked.is_list() ? InList(asked, t) : asked;
      const std::string name = Shown(set, request.name);
      timeline_.End(name, now, how);
      timeline_.End(name, now,
                    "{\"dtype\": \"" + std::string(Name(request.dtype)) + "\", \"shape\": \"" +
                        ToString(request.shape) + "\", \"set\": " + std::to_string(set.id) +
                        ", \"decision\": " + std::to_string(set.epoch) + "}");
      timeline_.Close(name, now);
    }
  }
}

void Observer::Failed(const ProcessSet& set, const Entry& entry, Nanos now) {
  failures_.fetch_add(1, kRelaxed);
  Record record;
  record.set = set.id;
  record.kind = entry.request.kind;
  record.failed = true;
  record.submitted = entry.submitted;
  record.agreed = record.done = now;
  recorder_.Add(record, entry.request.name);
  FailedElsewhere(set, entry.request.name, now);
}

void Observer::FailedElsewhere(const ProcessSet& set, const std::string& name, Nanos now) {
  if (timeline_.on()) timeline_.Fail(Shown(set, name), now);
}

Status Observer::StartTimeline(const std::string& path, bool mark_cycles) {
  watches_arrivals_ = true;
  if (rank_ == 0) return timeline_.Start(path, mark_cycles, rank_);
  if (!all_write_) return Status::Ok();
  const size_t dot = path.find_last_of('.');
  const size_t slash = path.find_last_of('/');
  const bool has_suffix = dot != std::string::npos && (slash == std::string::npos || dot > slash);
  const std::string mine = path.substr(0, has_suffix ? dot : std::string::npos) + ".rank" +
                           std::to_string(rank_) + (has_suffix ? path.substr(dot) : "");
  return timeline_.Start(mine, mark_cycles, rank_);
}

void Observer::StopTimeline() {
  watches_arrivals_ = false;
  timeline_.Stop();
}

std::string Observer::Metrics(const Elsewhere& elsewhere,
                              const comm::CarrierCounts& carrier_counts) const {
  std::string out =
      "{\"operations\": " + std::to_string(operations_.load(kRelaxed)) +
      ", \"failures\": " + std::to_string(failures_.load(kRelaxed)) +
      ", \"batches\": " + std::to_string(batches_.load(kRelaxed)) +
      ", \"batches_fused\": " + std::to_string(fused_.load(kRelaxed)) +
      ", \"lists\": " + std::to_string(lists_.load(kRelaxed)) +
      ", \"lists_taken_apart\": " + std::to_string(lists_taken_apart_.load(kRelaxed)) +
      ", \"batches_on_gpu\": " + std::to_string(batches_on_gpu_.load(kRelaxed)) +
      ", \"bytes\": " + std::to_string(bytes_.load(kRelaxed)) +
      ", \"bytes_before_encoding\": " + std::to_string(carrier_counts.before_encoding()) +
      ", \"bytes_encoded\": " + std::to_string(carrier_counts.after_encoding()) +
      ", \"requests_in_full\": " + std::to_string(requests_.load(kRelaxed)) +
      ", \"requests_by_slot\": " + std::to_string(slots_.load(kRelaxed)) +
      ", \"seconds_negotiating\": " + Seconds(negotiating_.covered()) +
      ", \"seconds_moving\": " + Seconds(moving_.covered()) + ", \"seconds_waited_for_rank\": {";
  for (const auto& [rank, waited] : elsewhere.waited_for) {
    out += (out.back() == '{' ? "\"" : ", \"") + std::to_string(rank) + "\": " + Seconds(waited);
  }
  return out + "}, \"background_wakes\": " + std::to_string(elsewhere.background_wakes) +
         ", \"moves_to_another_processor\": " + std::to_string(elsewhere.moves) +
         (elsewhere.autotune.empty() ? "" : ", \"autotune\": " + elsewhere.autotune) +
         Gradients(elsewhere.gradients) + Interfaces(elsewhere.interfaces) + ", \"carried_by\": {" +
         Carriers(carrier_counts) + "}}";
}

std::string Observer::Recent() {
  std::string out = "[";
  for (const Record& r : recorder_.Recent()) {
    if (out.size() > 1) out += ", ";
    out += "{\"number\": " + std::to_string(r.number) +
           ", \"process_set\": " + std::to_string(r.set) + ", \"kind\": \"" +
           std::string(Name(r.kind)) + "\", \"name\": \"" + Escaped(r.name.data()) +
           "\", \"failed\": " + (r.failed ? "true" : "false") +
           ", \"bytes\": " + std::to_string(r.bytes) + ", \"dtype\": \"" +
           std::string(Name(r.dtype)) + "\", \"communicator\": \"" + r.communicator + "\"" +
           ", \"batch_size\": " + std::to_string(r.batch_size) +
           ", \"submitted\": " + Seconds(r.submitted) + ", \"agreed\": " + Seconds(r.agreed) +
           ", \"done\": " + Seconds(r.done) + "}";
  }
  return out + "]";
}

}  // namespace hvdlite::engine
