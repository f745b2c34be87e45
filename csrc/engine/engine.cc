#include "engine/engine.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "base/thread.h"
#include "engine/execute/prepare.h"

namespace hvdlite::engine {
namespace {

LogLevel ParseLevel(const std::string& name) {
  static const char* const names[] = {"trace", "debug", "info", "warning", "error", "fatal"};
  for (int i = 0; i < 6; ++i) {
    if (name == names[i]) return static_cast<LogLevel>(i);
  }
  return LogLevel::kWarning;
}

StallOptions StallLimits(const Config& config) {
  const auto nanos = [](double seconds) {
    return static_cast<Nanos>(seconds * static_cast<double>(kSecond));
  };
  const Nanos warn = nanos(config.stall_check_time_seconds);
  const Nanos end = nanos(config.stall_shutdown_time_seconds);
  return {end > 0 ? std::min(warn, end) : warn, end};
}

// A failure ends a job. Of an elastic job it ends a generation, and the program goes on in another.
void SayWhyItEnds(const Logger& log, uint32_t generation, const Status& why) {
  if (generation == 0) return log.Error("the job has failed: " + why.message());
  log.Warning("generation " + std::to_string(generation) + " has ended: " + why.message());
}

// Whether the operation is left to the thread that will wait for it.
bool LeavesToWaiter(const Turn& turn, const Submission& submission) {
  return submission.patient && turn.leave_to_waiters() &&
         submission.request.device == DeviceKind::kHost;
}

}  // namespace

double SecondsToMeet(const EngineOptions& options) {
  const double most = options.config.start_timeout_seconds;
  return options.seconds_to_meet == 0 ? most : std::min<double>(options.seconds_to_meet, most);
}

Engine::Engine(const EngineOptions& options)
    : options_(options),
      log_(ParseLevel(options.config.log_level), !options.config.log_hide_time, options.rank,
           options.size),
      jitter_(options.config.debug_delay_microseconds * kMicrosecond,
              static_cast<uint64_t>(options.rank)),
      turn_(this, &jitter_),
      observer_(options.config, options.rank, &log_),
      fast_path_(&turn_, &sets_, &life_, &observer_, &jitter_),
      vigil_(Turn::kTickEvery),
      stalls_(StallLimits(options.config), &log_,
              [this](int rank) { return Vigil::WhyItRests(*world_, rank); }),
      results_(options.config, options.rank, &log_) {}

Status Engine::Start(const EngineOptions& options, rendezvous::Store* store,
                     std::unique_ptr<Engine>* out) {
  std::unique_ptr<Engine> engine(new Engine(options));
  const Deadline deadline = Deadline::AfterSeconds(SecondsToMeet(options));
  const Status connected = engine->Connect(store, deadline);
  // Report the failure before the engine's sockets close. The other ranks see them close and would
  // blame this rank.
  if (!connected.ok()) return store == nullptr ? connected : store->Fail(connected);
  const Config& config = engine->options_.config;
  const rendezvous::Place& place = engine->world_->place();
  int core = -1;
  Status pinned = CoreOf(config.thread_affinity, place.local_rank, place.local_size, &core);
  const Status started = engine->turn_.Start(core);
  if (pinned.ok()) pinned = started;
  if (!pinned.ok()) engine->log_.Warning(pinned.message());
  if (!config.timeline.empty() && config.timeline != "DYNAMIC") {
    const Status writes =
        engine->observer_.StartTimeline(config.timeline, config.timeline_mark_cycles);
    if (!writes.ok()) engine->log_.Warning(writes.message());
  }
  *out = std::move(engine);
  return Status::Ok();
}

std::string Engine::Metrics() {
  Observer::Elsewhere elsewhere;
  elsewhere.moves = turn_.moves();
  elsewhere.background_wakes = turn_.background_wakes();
  if (options_.gradients != nullptr) elsewhere.gradients = options_.gradients->stats();
  elsewhere.interfaces = &world_->interfaces();
  turn_.Take();
  const ProcessSet& everyone = sets_.world();
  if (everyone.agreement->is_root()) {
    const std::vector<Spans>& waited = everyone.agreement->ledger().waited_for();
    for (size_t m = 0; m < waited.size(); ++m)
      elsewhere.waited_for.emplace_back(everyone.ranks[m], waited[m].covered());
  }
  if (tuning_ != nullptr) elsewhere.autotune = tuning_->Report();
  const std::string metrics = observer_.Metrics(elsewhere, world_->carrier_counts());
  turn_.Return();
  return metrics;
}

Status Engine::Connect(rendezvous::Store* store, Deadline deadline) {
  comm::WorldOptions world;
  world.rank = options_.rank;
  world.size = options_.size;
  world.store_prefix = options_.store_prefix;
  world.generation = options_.generation;
  world.slot = options_.slot;
  world.secret = options_.secret;
  world.seconds = SecondsToMeet(options_);
  world.config = &options_.config;
  world.log = &log_;
  world.release = options_.release;
  world.mpi = options_.mpi;
  world.gradients = options_.gradients;
  HVDLITE_RETURN_IF_ERROR(comm::World::Join(world, store, deadline, &world_));
  fast_path_.Open(world_.get());
  const Config& config = options_.config;
  Turn::Options turn;
  turn.oversubscribed = world_->oversubscribed() && config.spin_microseconds < 0;
  if (config.spin_microseconds >= 0) turn.spin = config.spin_microseconds * kMicrosecond;
  turn.spread_ranks = config.spread_ranks;
  turn.leave_to_waiters =
      config.overlap == "off" || (config.overlap == "auto" && !world_->has_spare_processor());
  turn.window = static_cast<Nanos>(config.cycle_time * static_cast<double>(kMillisecond));
  turn_.Open(&world_->bells(), turn);
  std::vector<std::vector<int>> sets = options_.process_sets;
  sets.emplace(sets.begin(), static_cast<size_t>(size()));  // the world has number 0
  std::iota(sets[0].begin(), sets[0].end(), 0);
  const Until until(deadline, [store] { return store == nullptr ? Status::Ok() : store->Look(); });
  turn_.Take();
  vigil_.Begin(MonotonicNow());
  Status added;
  for (size_t i = 0; i < sets.size() && added.ok(); ++i)
    added = AddSet(std::move(sets[i]), sets_.NewId(), /*name=*/"", until);
  if (added.ok())
    added = Tuning::Begin(config, log_, *world_, sets_.world(), options_.generation, &tuning_);
  turn_.Return();
  HVDLITE_RETURN_IF_ERROR(added);
  // Before Arrive only some ranks may learn of a death, by their links. After it, the links of all
  // ranks tell.
  return store == nullptr ? Status::Ok() : store->Arrive(deadline);
}

Engine::~Engine() {
  turn_.Stop();
  for (const ProcessSetPtr& set : sets_.All()) set->in_flight.Free(log_);
}

std::string Engine::Explain(int id) {
  const ProcessSetPtr set = sets_.Find(id);
  if (set == nullptr) return "";
  turn_.Take();
  std::string why = set->group->why;
  if (set->in_flight.open()) why += ". Tensors on GPUs: " + set->in_flight.why();
  turn_.Return();
  return why;
}

Status Engine::Submit(int id, Submission submission, bool will_wait, HandlePtr* handle) {
  ProcessSetPtr set;
  HVDLITE_RETURN_IF_ERROR(sets_.FindMine(id, rank(), &set));
  const bool in_group = submission.request.is_list();
  HVDLITE_RETURN_IF_ERROR(CheckPlace(id, submission.request, in_group, rank(), size()));
  const bool patient = LeavesToWaiter(turn_, submission);
  ProducerEvents produced_by;
  std::unique_ptr<Entry> entry;
  HVDLITE_RETURN_IF_ERROR(
      MakeEntry(*set, &world_->card(), std::move(submission), patient, &produced_by, &entry));
  *handle = entry->handle;
  turn_.Opened(**handle);
  const Status status = set->inbox.Submit(std::move(entry));
  if (!status.ok()) {
    turn_.Closing(**handle);
    return status;
  }
  turn_.Submitted(will_wait || patient, (*handle)->wants_telling());
  return Status::Ok();
}

Status Engine::SubmitGroup(int id, std::vector<Submission> submissions,
                           std::vector<HandlePtr>* handles) {
  ProcessSetPtr set;
  HVDLITE_RETURN_IF_ERROR(sets_.FindMine(id, rank(), &set));
  for (const Submission& submission : submissions) {
    HVDLITE_RETURN_IF_ERROR(CheckPlace(id, submission.request, /*in_group=*/true, rank(), size()));
  }
  std::vector<std::unique_ptr<Entry>> entries;
  std::vector<HandlePtr> made;
  ProducerEvents produced_by;
  bool all_patient = true;
  for (Submission& submission : submissions) {
    const bool patient = LeavesToWaiter(turn_, submission);
    all_patient = all_patient && patient;
    std::unique_ptr<Entry> entry;
    HVDLITE_RETURN_IF_ERROR(
        MakeEntry(*set, &world_->card(), std::move(submission), patient, &produced_by, &entry));
    made.push_back(entry->handle);
    entries.push_back(std::move(entry));
  }
  for (const HandlePtr& handle : made) turn_.Opened(*handle);
  const Status status = set->inbox.SubmitGroup(std::move(entries));
  if (!status.ok()) {
    for (const HandlePtr& handle : made) turn_.Closing(*handle);
    return status;
  }
  *handles = std::move(made);
  turn_.Submitted(all_patient, !handles->empty() && handles->back()->wants_telling());
  return Status::Ok();
}

void Engine::Complete(ProcessSet* set, Entry* entry, int tensor, Status status) {
  if (tensor >= 0) {
    if (entry->misfit.ok()) entry->misfit = std::move(status);
    if (++entry->ended < entry->request.group_size) return;
    observer_.TookListApart();
    status = entry->misfit;
  }
  HandlePtr handle = entry->handle;
  turn_.Closing(*handle);
  set->Decided(entry);
  set->inbox.Complete(entry, std::move(status));
  turn_.Done(std::move(handle));
}

void Engine::CloseInbox(ProcessSet* set, const Status& reason) {
  if (set->meets != nullptr) set->meets->offered = nullptr;
  set->fetched.clear();
  for (HandlePtr& handle : set->inbox.Close(reason)) {
    turn_.Closing(*handle);
    turn_.Done(std::move(handle));
  }
}

void Engine::LinkFailed(ProcessSet* set, Status status) {
  // All have agreed to end, so a rank has left and needs nothing from this one.
  if (ended() || life_.agreed()) return;
  const bool may_know_more = world_->multi_host() || world_->mpi().use || set->in_flight.open();
  if (status.code() != StatusCode::kPeerLost || !may_know_more) return FailNow(std::move(status));
  set->suspicion.Begin(std::move(status), MonotonicNow(), /*in_world=*/set->id == 0);
}

void Engine::FailNow(Status status) {
  if (ended()) return;
  world_->segment().SetAbort(status);
  // The host's first failure is the cause.
  if (world_->segment().aborted()) status = world_->segment().abort_status();
  SayWhyItEnds(log_, options_.generation, status);
  // All ranks were sent the errors of operations on which they disagree. The rank that fails may
  // have had such an error, so the others end these operations with it, too.
  const Nanos now = MonotonicNow();
  for (const ProcessSetPtr& set : sets_.mine()) {
    set->agreement->SpreadAbort(status, now, &set->heard);
    std::move(set->heard.begin(), set->heard.end(), std::back_inserter(set->decided));
    set->heard.clear();
    for (Decision& decision : std::exchange(set->decided, {})) {
      if (decision.kind == Down::kError) Begin(set.get(), std::move(decision), now);
    }
  }
  Finish(status);
  world_->bells().RingEveryone();
}

void Engine::Finish(const Status& reason) {
  life_.End(reason);
  observer_.question().Close();
  const std::vector<ProcessSetPtr> sets = sets_.All();
  // Unless all have agreed to end, no rank may wait for the others to shut NCCL down.
  const bool alone = !life_.agreed();
  for (const ProcessSetPtr& set : sets) set->in_flight.BeginAbort(reason, alone, &set->running);
  const Deadline deadline = InFlight::AbortDeadline();
  for (const ProcessSetPtr& set : sets) set->in_flight.EndAbort(deadline);
  for (const ProcessSetPtr& set : sets) {
    set->running.reset();
    set->decided.clear();
    CloseInbox(set.get(), reason);
  }
  turn_.NotifyWaiters();
}

void Engine::Abort(const Status& reason) {
  turn_.Take();
  FailNow(reason);
  turn_.Return();
}

void Engine::AbandonInChild() {
  world_->AbandonInChild();
  for (const ProcessSetPtr& set : sets_.AllInChild()) {
    for (const auto& transport : set->group->transports) {
      if (transport->fd() >= 0) close(transport->fd());
    }
  }
}

Status Engine::Shutdown(Deadline deadline) {
  life_.Leave();
  turn_.DriveToTheEnd(deadline);
  turn_.Take();
  // Without the agreement of all ranks, the others must notice this departure. So the socket's end
  // tells them.
  if (life_.agreed())
    world_->segment().line(world_->place().local_rank).left.store(1, std::memory_order_seq_cst);
  Finish(Status::ShutDown(
      "Horovod has been shut down (hvdlite): hvd.shutdown() was called on this rank"));
  const Deadline flush = Deadline::After(kSecond);
  for (bool done = false; !done && !flush.Passed();) {
    done = true;
    for (const ProcessSetPtr& set : sets_.mine()) done &= set->agreement->Flush();
    if (done && life_.agreed()) done = sets_.world().agreement->TakeLeave();
    if (!done) usleep(100);
  }
  world_->bells().RingEveryone();
  // Do this now, when all members do: they finalize NCCL together.
  for (const ProcessSetPtr& set : sets_.mine()) {
    set->in_flight.Free(log_);
    set->in_flight.Close();
  }
  turn_.Return();
  return life_.failure();
}

}  // namespace hvdlite::engine
