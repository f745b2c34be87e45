#include "engine/engine.h"

#include <unistd.h>

#include <algorithm>

namespace hvdlite::engine {
namespace {

LogLevel ParseLevel(const std::string& name) {
  static const char* const names[] = {"trace", "debug", "info", "warning", "error", "fatal"};
  for (int i = 0; i < 6; ++i) {
    if (name == names[i]) return static_cast<LogLevel>(i);
  }
  return LogLevel::kWarning;
}

// Long enough that a peer which is about to answer finds us awake, short against a time slice.
constexpr Nanos kDefaultSpin = 50 * kMicrosecond;
// How long a broken link may stay unexplained; the news of who died travels in milliseconds.
constexpr Nanos kSuspicion = 300 * kMillisecond;
// The same for links of a process set other than the world: a peer may have heard before us that
// the set is removed. If the peer is dead, the world's links say so long before.
constexpr Nanos kSuspicionInSet = 5 * kSecond;
// However busy the world is.
constexpr Nanos kLongestSuspicion = 60 * kSecond;

}  // namespace

Engine::Engine(const EngineOptions& options)
    : options_(options),
      log_(ParseLevel(options.config.log_level), !options.config.log_hide_time, options.rank,
           options.size),
      jitter_(options.config.debug_delay_microseconds * kMicrosecond,
              static_cast<uint64_t>(options.rank)),
      observer_(static_cast<size_t>(std::max<int64_t>(options.config.recorder_entries, 0))) {
  const Config& config = options_.config;
  window_ = static_cast<Nanos>(config.cycle_time * static_cast<double>(kMillisecond));
}

Status Engine::Start(const EngineOptions& options, rendezvous::Store* store,
                     std::unique_ptr<Engine>* out) {
  std::unique_ptr<Engine> engine(new Engine(options));
  const Deadline deadline = Deadline::AfterSeconds(options.config.start_timeout_seconds);
  const Status connected = engine->Connect(store, deadline);
  // Before the engine's sockets close: the others see that as well, and would take this rank for
  // the culprit.
  if (!connected.ok()) return store == nullptr ? connected : store->Fail(connected);
  engine->StartBackground();
  const Config& config = engine->options_.config;
  if (!config.timeline.empty() && config.timeline != "DYNAMIC") {
    const Status started = engine->StartTimeline(config.timeline, config.timeline_mark_cycles);
    if (!started.ok()) engine->log_.Warning(started.message());
  }
  *out = std::move(engine);
  return Status::Ok();
}

// "trace.json" is rank 0's; if all ranks write, rank 3's is "trace.rank3.json".
Status Engine::StartTimeline(const std::string& path, bool mark_cycles) {
  arrivals_watched_ = true;
  std::string mine = path;
  if (rank() != 0) {
    if (options_.config.timeline_ranks != "all") return Status::Ok();
    const size_t dot = path.find_last_of('.');
    const size_t slash = path.find_last_of('/');
    const bool has_suffix = dot != std::string::npos && (slash == std::string::npos || dot > slash);
    mine = path.substr(0, has_suffix ? dot : std::string::npos) + ".rank" + std::to_string(rank()) +
           (has_suffix ? path.substr(dot) : "");
  }
  return observer_.timeline().Start(mine, mark_cycles, rank());
}

std::string Engine::Metrics() {
  Observer::Elsewhere elsewhere;
  elsewhere.moves = apart_->moves();
  elsewhere.background_wakes = background_wakes_.load(std::memory_order_relaxed);
  TakeTurn();
  for (const auto& set : active_) {
    if (set->id != 0 || !set->agreement->is_root()) continue;
    const std::vector<Spans>& waited = set->agreement->ledger().waited_for();
    for (size_t m = 0; m < waited.size(); ++m)
      elsewhere.waited_for.emplace_back(set->ranks[m], waited[m].covered());
  }
  const std::string metrics = observer_.Metrics(elsewhere, world_->carried());
  ReturnTurn();
  return metrics;
}

Status Engine::Connect(rendezvous::Store* store, Deadline deadline) {
  comm::WorldOptions world;
  world.rank = options_.rank;
  world.size = options_.size;
  world.store_prefix = options_.store_prefix;
  world.secret = options_.secret;
  world.config = &options_.config;
  world.log = &log_;
  world.release = options_.release;
  world.mpi = options_.mpi;
  HVDLITE_RETURN_IF_ERROR(comm::World::Join(world, store, deadline, &world_));
  const int64_t spin = options_.config.spin_microseconds;
  const std::string& overlap = options_.config.overlap;
  leaves_it_to_waiters_ = overlap == "off" || (overlap == "auto" && !world_->has_spare_processor());
  apart_ = std::make_unique<Apart>(&world_->bells().segment(), world_->bells().local_rank(),
                                   options_.config.spread_ranks);
  patience_ = std::make_unique<Patience>(
      world_->oversubscribed(), spin < 0 ? kDefaultSpin : spin * kMicrosecond, apart_.get());
  MutexLock turn(turn_);
  const Nanos now = MonotonicNow();
  last_tick_ = last_submission_ = now;
  silences_.Look(now);
  remote_silences_.Look(now);
  outages_.Look(now);
  std::vector<int> everyone(static_cast<size_t>(options_.size));
  for (int r = 0; r < options_.size; ++r) everyone[static_cast<size_t>(r)] = r;
  const Until until(deadline, [store] { return store == nullptr ? Status::Ok() : store->Look(); });
  HVDLITE_RETURN_IF_ERROR(AddSet(everyone, next_id_++, until));
  for (const std::vector<int>& ranks : options_.process_sets)
    HVDLITE_RETURN_IF_ERROR(AddSet(ranks, next_id_++, until));
  // Before that a death may be known to some only, by its links; after it, all ranks' links tell.
  return store == nullptr ? Status::Ok() : store->Arrive(deadline);
}

Engine::~Engine() {
  if (background_.joinable()) {
    stopping_ = true;
    gate_.fetch_add(1, std::memory_order_seq_cst);
    FutexWake(&gate_);
    world_->bells().RingSelf();
    background_.join();
  }
  for (const auto& [id, set] : sets_) FreeInFlight(set.get());
}

namespace {

std::unique_ptr<Entry> MakeEntry(Submission submission, const HandlePtr& handle,
                                 std::vector<device::EventPtr> ready) {
  auto entry = std::make_unique<Entry>();
  entry->request = std::move(submission.request);
  entry->input = std::move(submission.input);
  entry->output = std::move(submission.output);
  entry->handle = handle;
  entry->ready = std::move(ready);
  entry->submitted = MonotonicNow();
  return entry;
}

}  // namespace

Status Engine::MemberSet(int id, std::shared_ptr<ProcessSet>* set) {
  *set = FindSet(id);
  if (*set == nullptr)
    return Status::InvalidArgument("process set " + std::to_string(id) + " does not exist");
  if ((*set)->member()) return Status::Ok();
  return Status::InvalidArgument(
      "rank " + std::to_string(rank()) + " is not a member of process set " + std::to_string(id) +
      ". Call the operation on its members only: if process_set.included(): ...");
}

std::string Engine::DefaultName(int id, const std::string& kind) {
  const std::shared_ptr<ProcessSet> set = FindSet(id);
  return set == nullptr ? std::string() : set->inbox.DefaultName(kind);
}

Status Engine::Submit(int id, Submission submission, bool will_wait, HandlePtr* handle) {
  std::shared_ptr<ProcessSet> set;
  HVDLITE_RETURN_IF_ERROR(MemberSet(id, &set));
  HVDLITE_RETURN_IF_ERROR(CheckPlace(id, submission.request, /*in_group=*/false));
  const bool patient =
      submission.patient && leaves_it_to_waiters_ && submission.request.device == DeviceKind::kHost;
  *handle = std::make_shared<Handle>(std::move(submission.completion), patient);
  std::vector<device::EventPtr> ready;
  if (submission.request.device != DeviceKind::kHost) {
    ProducerEvents produced_by;
    HVDLITE_RETURN_IF_ERROR(PrepareGpu(*set, &submission, handle->get(), &produced_by, &ready));
  }
  Count(**handle, 1);
  const Status status =
      set->inbox.Submit(MakeEntry(std::move(submission), *handle, std::move(ready)));
  if (!status.ok()) {
    Count(**handle, -1);
    return status;
  }
  Submitted(will_wait || patient, (*handle)->wants_telling());
  return Status::Ok();
}

Status Engine::SubmitGroup(int id, std::vector<Submission> submissions,
                           std::vector<HandlePtr>* handles) {
  std::shared_ptr<ProcessSet> set;
  HVDLITE_RETURN_IF_ERROR(MemberSet(id, &set));
  for (const Submission& submission : submissions) {
    HVDLITE_RETURN_IF_ERROR(CheckPlace(id, submission.request, /*in_group=*/true));
  }
  std::vector<std::unique_ptr<Entry>> entries;
  std::vector<HandlePtr> made;
  ProducerEvents produced_by;
  for (Submission& submission : submissions) {
    made.push_back(std::make_shared<Handle>(std::move(submission.completion)));
    std::vector<device::EventPtr> ready;
    if (submission.request.device != DeviceKind::kHost) {
      HVDLITE_RETURN_IF_ERROR(
          PrepareGpu(*set, &submission, made.back().get(), &produced_by, &ready));
    }
    entries.push_back(MakeEntry(std::move(submission), made.back(), std::move(ready)));
  }
  for (const HandlePtr& handle : made) Count(*handle, 1);
  const Status status = set->inbox.SubmitGroup(std::move(entries));
  if (!status.ok()) {
    for (const HandlePtr& handle : made) Count(*handle, -1);
    return status;
  }
  *handles = std::move(made);
  Submitted(/*will_wait=*/false, !handles->empty() && handles->back()->wants_telling());
  return Status::Ok();
}

void Engine::Count(const Handle& handle, int change) {
  outstanding_.fetch_add(change, std::memory_order_seq_cst);
  if (!handle.patient()) urgent_.fetch_add(change, std::memory_order_seq_cst);
}

void Engine::Complete(ProcessSet* set, Entry* entry, Status status) {
  const HandlePtr handle = entry->handle;
  Count(*handle, -1);
  set->inbox.Complete(entry, std::move(status));
  if (handle->wants_telling()) to_tell_.push_back(handle);
  NotifyWaiters();
}

void Engine::CloseInbox(ProcessSet* set, const Status& reason) {
  for (HandlePtr& handle : set->inbox.Close(reason)) {
    Count(*handle, -1);
    if (handle->wants_telling()) to_tell_.push_back(std::move(handle));
  }
}

void Engine::LinkFailed(ProcessSet* set, Status status) {
  // All have agreed to end: a rank has left and needs nothing from us any more.
  if (ended_ || !closing_.ok()) return;
  const bool may_know_more = world_->multi_host() || world_->mpi().use || set->on_gpu != nullptr;
  if (status.code() != StatusCode::kPeerLost || !may_know_more) return FailNow(std::move(status));
  if (!set->suspicion.ok()) return;
  set->suspicion = std::move(status);
  set->suspicion_since = MonotonicNow();
  set->suspicion_until = set->suspicion_since + (set->id == 0 ? kSuspicion : kSuspicionInSet);
}

void Engine::CheckSuspicions(Nanos now) {
  if (ended_ || !closing_.ok()) return;
  for (const auto& set : active_) {
    if (set->suspicion.ok()) continue;
    // The removal of the set may wait in the world's queue.
    if (set->id != 0 && !active_[0]->idle()) {
      set->suspicion_until =
          std::min(now + kSuspicionInSet, set->suspicion_since + kLongestSuspicion);
    }
    if (now > set->suspicion_until) return FailNow(set->suspicion);
  }
}

void Engine::FailNow(Status status) {
  if (ended_) return;
  world_->segment().SetAbort(status);
  // The host's first failure is the cause.
  if (world_->segment().aborted()) status = world_->segment().abort_status();
  log_.Error("the job has failed: " + status.message());
  for (const auto& set : active_) set->agreement->SpreadAbort(status);
  Finish(status);
  world_->bells().RingEveryone();
}

void Engine::Finish(const Status& reason) {
  {
    MutexLock lock(end_mutex_);
    if (end_.ok()) end_ = reason;
  }
  ended_ = true;
  question_.Close();
  std::vector<std::shared_ptr<ProcessSet>> sets;
  {
    MutexLock lock(sets_mutex_);
    for (const auto& [id, set] : sets_) sets.push_back(set);
  }
  for (const auto& set : sets) {
    BeginAbortGpu(set.get(), reason);
    // Unless all have agreed to end, no rank may wait for the others to shut NCCL down.
    if (closing_.ok() && set->on_gpu != nullptr) set->on_gpu->BeginAbort();
  }
  const Deadline ended = Deadline::After(comm::nccl::kAbortPatience);
  for (const auto& set : sets) EndAbortGpu(set.get(), ended);
  for (const auto& set : sets) {
    set->running.reset();
    set->decided.clear();
    CloseInbox(set.get(), reason);
  }
  NotifyWaiters();
}

Status Engine::health() {
  MutexLock lock(end_mutex_);
  return end_;
}

Status Engine::failure() {
  const Status end = health();
  return end.code() == StatusCode::kShutDown ? Status::Ok() : end;
}

void Engine::Abort(const Status& reason) {
  TakeTurn();
  FailNow(reason);
  ReturnTurn();
}

void Engine::AbandonInChild() {
  world_->AbandonInChild();
  // Without the lock: whichever thread of the parent held it is not here.
  for (const auto& [id, set] : sets_) {
    for (const auto& transport : set->group->transports) {
      if (transport->fd() >= 0) close(transport->fd());
    }
  }
}

Status Engine::Shutdown(Deadline deadline) {
  leaving_.store(true, std::memory_order_seq_cst);
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  world_->bells().RingSelf();
  Backoff backoff(patience_.get());
  while (!ended_ && !deadline.Passed()) {
    if (turn_wanted_.load(std::memory_order_seq_cst) > 0 || !turn_.TryLock()) {
      usleep(100);
      continue;
    }
    if (Cycle()) backoff.Reset();
    if (!ended_ && to_tell_.empty() && !backoff.Pause()) {
      IdleInTurn(deadline.Left(kTickEvery));
      backoff.Reset();
    }
    UnlockAndTell();
  }
  TakeTurn();
  // Without the others' consent this is a departure that they must notice, so the socket's end
  // speaks for us.
  if (!closing_.ok())
    world_->segment().line(world_->place().local_rank).left.store(1, std::memory_order_seq_cst);
  Finish(Status::ShutDown(
      "Horovod has been shut down (hvdlite): hvd.shutdown() was called on this rank"));
  const Deadline flush = Deadline::After(kSecond);
  for (bool done = false; !done && !flush.Passed();) {
    done = true;
    for (const auto& set : active_) done &= set->agreement->Flush();
    if (done && !closing_.ok()) done = active_[0]->agreement->TakeLeave();
    if (!done) usleep(100);
  }
  world_->bells().RingEveryone();
  // Now, when all members do: they take leave of NCCL together.
  for (const auto& set : active_) {
    FreeInFlight(set.get());
    set->on_gpu.reset();
  }
  UnlockAndTell();
  waiters_.fetch_sub(1, std::memory_order_seq_cst);
  return failure();
}

}  // namespace hvdlite::engine
