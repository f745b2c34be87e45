// Periodic checks, a few times a second, whether operations are in flight or not: sends heartbeats
// and looks for frozen ranks. Also collects what a thread needs to know before it sleeps.
#include <algorithm>

#include "engine/engine.h"

namespace hvdlite::engine {

void Engine::Tick(Nanos now) {
  turn_.Ticked(now);
  transport::shm::HostSegment& segment = world_->segment();
  segment.line(world_->place().local_rank).heartbeat.fetch_add(1, std::memory_order_seq_cst);
  if (ended()) return;
  if (options_.report_requests != nullptr)
    observer_.question().AskForReport(options_.report_requests->load());
  if (segment.aborted()) return;
  const Status door = world_->Tend();
  if (!door.ok()) log_.Warning(door.message());
  for (const ProcessSetPtr& set : sets_.mine()) CheckInFlight(set.get());
  if (ended()) return;
  const Status results = results_.Look(sets_);
  if (!results.ok()) return FailNow(results);
  vigil_.Look(now);
  const Config& config = options_.config;
  // After all ranks have agreed to end, a finished rank sends no more heartbeats.
  if (!life_.agreed()) {
    const auto limit = static_cast<Nanos>(config.heartbeat_seconds * static_cast<double>(kSecond));
    const Status alive = vigil_.Check(now, limit, world_.get(), sets_);
    if (!alive.ok()) return FailNow(alive);
  }
  if (config.stall_check_disable) return;
  std::optional<Whereabouts> here = observer_.question().TakeAnswer(now);
  if (here) here->idle = turn_.SinceSubmission(now);
  const Status stalls = stalls_.Look(now, here, sets_);
  if (!stalls.ok()) FailNow(stalls);
}

void Engine::CheckInFlight(ProcessSet* set) {
  if (ended()) return;
  const Status swept = set->in_flight.Sweep();
  if (!swept.ok()) return FailNow(swept);
  const Status looked = set->in_flight.Look();
  if (!looked.ok()) LinkFailed(set, looked);
}

Turn::Worker::Transfers Engine::transfers() const {
  Transfers all = Transfers::kNone;
  for (const ProcessSetPtr& set : sets_.mine()) {
    const Running* const running = set->running.get();
    if (running == nullptr) continue;
    if (running->work == nullptr || !running->communicator->slow()) return Transfers::kQuick;
    all = Transfers::kSlow;
  }
  return all;
}

// If a peer's news does not ring the doorbell, a waiting thread polls again after an eighth of the
// time it has waited. So it sleeps most of a long wait, and adds little to the wait.
Nanos Engine::PrepareSleep(Nanos now, std::vector<pollfd>* fds) {
  constexpr Nanos kDevice = 100 * kMicrosecond;  // a GPU rings no bell
  constexpr Nanos kShortest = 20 * kMicrosecond;
  constexpr Nanos kLongest = 2 * kMillisecond;
  const bool waits_for_neighbours = turn_.waited_for() && !world_->neighbours().sockets().empty();
  Nanos nap = waits_for_neighbours ? transport::shm::Neighbours::kLookEvery : Turn::kTickEvery;
  for (const ProcessSetPtr& set : sets_.mine()) {
    if (world_->multi_host()) set->agreement->AddPollFds(fds);
    if (set->gathering.keeps()) nap = std::min(nap, kDevice);
    Running* const running = set->running.get();
    if (running == nullptr || running->work == nullptr) continue;
    if (world_->multi_host()) running->communicator->AddPollFds(fds);
    if (!running->communicator->must_be_asked()) continue;
    if (running->waits_since == 0) running->waits_since = now;
    nap = std::min(nap, std::clamp((now - running->waits_since) / 8, kShortest, kLongest));
  }
  return nap;
}

}  // namespace hvdlite::engine
