// What is different for tensors on a GPU: what an operation has to wait for, and what happens between the moment in which a
// batch has been put on the device's stream, when its handles are done, and the moment in which the device has done it.
#include <algorithm>

#include "base/leak.h"
#include "engine/engine.h"
#include "engine/shapes.h"

namespace hvdlite::engine {

namespace {

// How long the device may take for what is left on a stream that nobody waits for any more.
constexpr Nanos kSettle = 2 * kSecond;
// For the others, when a set is removed, to come to the same point.
constexpr Nanos kLeaving = 5 * kSecond;
// How often, meanwhile, the heart beats.
constexpr Nanos kBetweenBeats = 20 * kMillisecond;
// For what was being put there when the job failed. Usually nothing is left after the abort; a producer may be late.
constexpr Nanos kLettingGo = 500 * kMillisecond;

}  // namespace

// By the user's thread. What has to be allocated and can be is, so that a lack of memory concerns this call alone.
Status Engine::Board(const ProcessSet& set, Submission* submission, Handle* handle, Moments* moments,
                     std::vector<device::EventPtr>* ready) {
  const Request& request = submission->request;
  std::shared_ptr<device::Gpu> gpu;
  HVDLITE_RETURN_IF_ERROR(world_->card().Open(submission->input.device.index, &gpu));
  device::EventPtr& produced = (*moments)[submission->producer];
  if (produced == nullptr) HVDLITE_RETURN_IF_ERROR(gpu->Record(submission->producer, &produced));
  ready->push_back(produced);
  std::optional<Shape> known = KnownResult(request, set.group->me, static_cast<int>(set.ranks.size()));
  if (!known || submission->output.data != nullptr) return Status::Ok();
  TensorView& output = handle->output;
  output.dtype = request.dtype;
  output.device = submission->input.device;
  output.shape = *std::move(known);
  HVDLITE_RETURN_IF_ERROR(handle->AllocateOn(std::move(gpu)));
  submission->output = output;
  ready->push_back(handle->memory()->there());
  return Status::Ok();
}

Status Engine::FindGpu(ProcessSet* set) {
  if (set->on_gpu == nullptr) set->on_gpu = world_->OnGpu(*set->group);
  return set->on_gpu->FindGpu();
}

// The batch is on the stream. Its handles are about to be done.
void Engine::TakeOff(ProcessSet* set, std::unique_ptr<Running> running, FlightPtr flight) {
  running->entries.clear();
  set->in_flight.push_back({std::move(flight), std::move(running)});
  LookAfterFlights(set);
}

void Engine::LookAfterFlights(ProcessSet* set) {
  if (set->on_gpu == nullptr || ended_) return;
  while (!set->in_flight.empty()) {
    bool landed = false;
    const Status status = set->in_flight.front().flight->Landed(&landed);
    if (!status.ok()) return FailNow(status);
    if (!landed) break;
    set->in_flight.pop_front();
  }
  const Status status = set->on_gpu->Look();
  if (!status.ok()) LinkFailed(set, status);
}

// The job ends, or the set does. First the handles, so that nobody takes what the device then leaves behind for a result.
void Engine::LoseFlights(ProcessSet* set, const Status& reason) {
  if (set->on_gpu == nullptr) return;
  for (const InFlight& each : set->in_flight) {
    if (each.flight != nullptr) each.flight->Lose(reason);
  }
  const bool under_way = set->running != nullptr && set->running->communicator == set->on_gpu.get();
  if (under_way) set->in_flight.push_back({nullptr, std::move(set->running)});
  if (!set->in_flight.empty()) set->on_gpu->BeginAbort();
}

void Engine::AwaitLoss(ProcessSet* set, const Deadline& deadline) {
  if (set->on_gpu == nullptr) return;
  set->on_gpu->EndAbort(deadline);
  if (set->in_flight.empty() || set->in_flight.back().flight != nullptr) return;
  // It was under way, and has no event to tell: whoever hears that it has failed frees its tensors.
  (void)set->on_gpu->Settle(Deadline::After(kLettingGo));
}

// The set is removed: what its members have begun together is done soon, and all take leave of NCCL, unless one has died. The turn is
// held so long, and the heart beats.
void Engine::Retire(ProcessSet* set, const Status& reason) {
  if (set->on_gpu == nullptr) return;
  Nanos next = 0;
  const Lookout look = [this, &next]() REQUIRES(turn_) {
    const Nanos now = MonotonicNow();
    if (now < next) return Status::Ok();
    next = now + kBetweenBeats;
    return LookForTheDead();
  };
  const Lookout beat = [&look] {
    (void)look();
    return Status::Ok();
  };
  (void)set->on_gpu->Settle(Until(Deadline::After(kSettle), look));
  LookAfterFlights(set);
  LoseFlights(set, reason);
  if (!set->in_flight.empty() || !set->on_gpu->TakeLeave(Until(Deadline::After(kLeaving), look))) {
    set->on_gpu->BeginAbort();
  }
  AwaitLoss(set, Deadline::After(comm::nccl::kAbortPatience));
  Ground(set, beat);
  set->on_gpu.reset();
}

// Memory that the device still uses stays what it is, even if that means for ever.
void Engine::Ground(ProcessSet* set, const Lookout& meanwhile) {
  if (set->on_gpu == nullptr || set->in_flight.empty()) return;
  if (!set->on_gpu->Settle(Until(Deadline::After(kSettle), meanwhile))) {
    log_.Warning("the GPU does not finish what it was given; what that uses is not freed");
    for (InFlight& each : set->in_flight) LeakOnPurpose(each.running.release());
  }
  set->in_flight.clear();
}

}  // namespace hvdlite::engine
