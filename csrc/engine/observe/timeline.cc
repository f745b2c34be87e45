#include "engine/observe/timeline.h"

#include <cerrno>
#include <chrono>
#include <limits>

#include "base/boot.h"
#include "base/thread.h"

namespace hvdlite::engine {
namespace {

// Events within this time are written together. A job that is killed loses at most this much.
constexpr Nanos kGather = 20 * kMillisecond;

std::string Quote(const std::string& text) {
  std::string out = "\"";
  for (unsigned char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c < 0x20) {
      char escape[8];
      snprintf(escape, sizeof(escape), "\\u%04x", c);
      out += escape;
    } else {
      out += static_cast<char>(c);
    }
  }
  return out + "\"";
}

std::string Microseconds(Nanos span) {
  char text[32];
  snprintf(text, sizeof(text), "%.3f", static_cast<double>(span) / 1000.0);
  return text;
}

struct Beginning {
  Nanos monotonic = 0;
  int64_t epoch_micros = 0;
};

// One moment by both clocks: the closest of some readings, because this thread may lose its
// processor between two.
Beginning Now() {
  Beginning closest;
  Nanos least = std::numeric_limits<Nanos>::max();
  for (int i = 0; i < 5; ++i) {
    const Nanos before = MonotonicNow();
    const auto epoch = std::chrono::system_clock::now().time_since_epoch();
    const Nanos took = MonotonicNow() - before;
    if (took >= least) continue;
    least = took;
    closest = {before + took / 2,
               std::chrono::duration_cast<std::chrono::microseconds>(epoch).count()};
  }
  return closest;
}

}  // namespace

Status Timeline::Start(const std::string& path, bool mark_cycles, int rank) {
  MutexLock life(life_mutex_);
  if (on_)
    return Status::InvalidArgument(
        "the timeline is being written already; call stop_timeline() first");
  if (writer_.joinable()) writer_.join();  // it has ended by itself
  HVDLITE_RETURN_IF_ERROR(file_.Open(path));
  MutexLock lock(mutex_);
  const Beginning beginning = Now();
  started_ = beginning.monotonic;
  rank_ = rank;
  open_.clear();
  free_lanes_.clear();
  lanes_ = 0;
  named_.clear();
  pending_.clear();
  first_ = true;
  stopping_ = false;
  Describe("process_name", rank, 0,
           "\"name\": \"rank " + std::to_string(rank) +
               "\", \"start_time_since_epoch_in_micros\": " +
               std::to_string(beginning.epoch_micros) + ", \"boot\": " + Quote(BootId()) +
               ", \"monotonic_nanoseconds\": " + std::to_string(started_));
  Describe("process_sort_index", rank, 0, "\"sort_index\": " + std::to_string(rank));
  named_.emplace(rank, 0);
  mark_cycles_ = mark_cycles;
  on_ = true;
  writer_ = std::thread([this] { Write(); });
  return Status::Ok();
}

void Timeline::Stop() {
  MutexLock life(life_mutex_);
  {
    MutexLock lock(mutex_);
    on_ = false;
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (writer_.joinable()) writer_.join();
}

void Timeline::Write() {
  NameThisThread("hvdlite-trace");
  for (bool last = false; !last;) {
    std::string events;
    {
      MutexLock lock(mutex_);
      while (pending_.empty() && !stopping_) changed_.WaitFor(mutex_, kSecond);
      if (!stopping_) changed_.WaitFor(mutex_, kGather);
      events.swap(pending_);
      last = stopping_;
    }
    if (events.empty()) continue;
    const Status written = file_.Append(events);
    if (written.ok()) continue;
    log_.Warning(written.message());
    on_ = false;
    break;
  }
  file_.Close();
}

void Timeline::Append(const std::string& event) {
  if (pending_.empty()) changed_.NotifyAll();
  pending_ += first_ ? "" : ",\n";
  pending_ += event;
  first_ = false;
}

void Timeline::Describe(const char* what, int rank, int lane, const std::string& args) {
  Append("{\"name\": \"" + std::string(what) +
         "\", \"ph\": \"M\", \"pid\": " + std::to_string(rank) +
         ", \"tid\": " + std::to_string(lane) + ", \"args\": {" + args + "}}");
}

void Timeline::NameLane(int rank, int lane) {
  if (!named_.emplace(rank, lane).second) return;
  // Lane 0 is no lane: it stands for the rank itself.
  if (named_.emplace(rank, 0).second) {
    Describe("process_name", rank, 0, "\"name\": \"rank " + std::to_string(rank) + "\"");
    Describe("process_sort_index", rank, 0, "\"sort_index\": " + std::to_string(rank));
  }
  Describe("thread_name", rank, lane, "\"name\": \"in flight, lane " + std::to_string(lane) + "\"");
}

void Timeline::Event(char kind, int rank, int lane, const std::string& name, Nanos at,
                     const std::string& more) {
  NameLane(rank, lane);
  std::string event = "{\"ph\": \"";
  event += kind;
  event += "\", \"pid\": " + std::to_string(rank) + ", \"tid\": " + std::to_string(lane) +
           ", \"ts\": " + Microseconds(at - started_);
  if (!name.empty()) event += ", \"name\": " + Quote(name);
  Append(event + more + "}");
}

Timeline::Operation* Timeline::Open(const std::string& name, Nanos now) {
  const auto [found, fresh] = open_.try_emplace(name);
  Operation* operation = &found->second;
  if (!fresh) return operation;
  if (free_lanes_.empty()) {
    operation->lane = ++lanes_;
  } else {
    operation->lane = *free_lanes_.begin();
    free_lanes_.erase(free_lanes_.begin());
  }
  Event('B', rank_, operation->lane, name, now);
  operation->depth = 1;
  return operation;
}

void Timeline::EndPhases(Operation* operation, int down_to, Nanos now) {
  for (; operation->depth > down_to; --operation->depth)
    Event('E', rank_, operation->lane, "", now);
}

void Timeline::ArriveOpen(const std::string& name, const std::string& phase, int rank, Nanos at,
                          Nanos now) {
  Operation* operation = Open(name, now);
  operation->arrived.emplace_back(rank, at);
  operation->phase = phase;
  if (operation->agreed) return;
  if (operation->depth == 1) {
    Event('B', rank_, operation->lane, phase, now);
    ++operation->depth;
  }
  Event('X', rank_, operation->lane, std::to_string(rank), now, ", \"dur\": 0");
}

void Timeline::Arrive(const std::string& name, const std::string& phase, int rank, Nanos now) {
  MutexLock lock(mutex_);
  if (on_) ArriveOpen(name, phase, rank, now, now);
}

void Timeline::Agree(const std::string& name, Nanos now) {
  MutexLock lock(mutex_);
  const auto found = open_.find(name);
  if (!on_ || found == open_.end()) return;
  Operation* operation = &found->second;
  EndPhases(operation, 1, now);
  for (const auto& [rank, at] : operation->arrived) {
    if (rank == rank_) continue;
    Event('X', rank, operation->lane, name, at, ", \"dur\": " + Microseconds(now - at));
  }
  operation->arrived.clear();
  operation->agreed = true;
}

void Timeline::Begin(const std::string& name, const std::string& phase, Nanos now) {
  MutexLock lock(mutex_);
  if (!on_) return;
  Operation* operation = Open(name, now);
  operation->agreed = true;
  Event('B', rank_, operation->lane, phase, now);
  ++operation->depth;
}

void Timeline::End(const std::string& name, Nanos now, const std::string& args) {
  MutexLock lock(mutex_);
  const auto found = open_.find(name);
  if (!on_ || found == open_.end() || found->second.depth == 1) return;
  Event('E', rank_, found->second.lane, "", now, args.empty() ? "" : ", \"args\": " + args);
  --found->second.depth;
}

void Timeline::CloseOpen(const std::string& name, bool failed, Nanos now) {
  const auto found = open_.find(name);
  if (!on_ || found == open_.end()) return;
  Operation* operation = &found->second;
  EndPhases(operation, 1, now);
  if (failed) {
    Event('B', rank_, operation->lane, "ERROR", now);
    ++operation->depth;
  }
  EndPhases(operation, 0, now);
  free_lanes_.insert(operation->lane);
  const Operation over = std::move(*operation);
  open_.erase(found);
  if (!over.agreed) return;
  for (const auto& [rank, at] : over.arrived) ArriveOpen(name, over.phase, rank, at, now);
}

void Timeline::Close(const std::string& name, Nanos now) {
  MutexLock lock(mutex_);
  CloseOpen(name, /*failed=*/false, now);
}

void Timeline::Fail(const std::string& name, Nanos now) {
  MutexLock lock(mutex_);
  CloseOpen(name, /*failed=*/true, now);
}

void Timeline::MarkCycle(Nanos now) {
  MutexLock lock(mutex_);
  if (on_)
    Append("{\"ph\": \"i\", \"name\": \"CYCLE_START\", \"s\": \"g\", \"pid\": " +
           std::to_string(rank_) + ", \"ts\": " + Microseconds(now - started_) + "}");
}

}  // namespace hvdlite::engine
