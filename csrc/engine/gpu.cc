// GPU tensors: what an operation waits for, and what becomes of a batch between the moment it is
// enqueued on the device's stream, when its handles are done, and the moment the device has
// finished it.
#include <algorithm>

#include "base/leak.h"
#include "engine/engine.h"
#include "engine/shapes.h"

namespace hvdlite::engine {

namespace {

// How long the device may take for the rest of a stream whose process set ends.
constexpr Nanos kSettle = 2 * kSecond;
// How long the other members may take to come to the same point when a set is removed.
constexpr Nanos kLeaving = 5 * kSecond;
// How often this rank shows that it is alive meanwhile.
constexpr Nanos kBetweenBeats = 20 * kMillisecond;
// How long a batch that was being enqueued when the job failed may need. Usually the abort has
// ended it; its producer may be late.
constexpr Nanos kAfterAbort = 500 * kMillisecond;

}  // namespace

// Called by the user's thread. Allocates the result if its shape is known, so that a lack of memory
// fails this call alone.
Status Engine::PrepareGpu(const ProcessSet& set, Submission* submission, Handle* handle,
                          ProducerEvents* produced_by, std::vector<device::EventPtr>* ready) {
  const Request& request = submission->request;
  std::shared_ptr<device::Gpu> gpu;
  HVDLITE_RETURN_IF_ERROR(world_->card().Open(submission->input.device.index, &gpu));
  device::EventPtr& produced = (*produced_by)[submission->producer];
  if (produced == nullptr) HVDLITE_RETURN_IF_ERROR(gpu->Record(submission->producer, &produced));
  ready->push_back(produced);
  std::optional<Shape> known =
      KnownResult(request, set.group->me, static_cast<int>(set.ranks.size()));
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

// The batch is enqueued. Its handles are about to be done.
void Engine::MarkEnqueued(ProcessSet* set, std::unique_ptr<Running> running,
                          PendingBatchPtr pending) {
  running->entries.clear();
  set->in_flight.push_back({std::move(pending), std::move(running)});
  CheckInFlight(set);
}

void Engine::CheckInFlight(ProcessSet* set) {
  if (set->on_gpu == nullptr || ended_) return;
  while (!set->in_flight.empty()) {
    bool finished = false;
    const Status status = set->in_flight.front().pending->Finished(&finished);
    if (!status.ok()) return FailNow(status);
    if (!finished) break;
    set->in_flight.pop_front();
  }
  const Status status = set->on_gpu->Look();
  if (!status.ok()) LinkFailed(set, status);
}

// The job or the set ends. The handles come first, so that no caller takes the memory of an aborted
// batch for a result.
void Engine::BeginAbortGpu(ProcessSet* set, const Status& reason) {
  if (set->on_gpu == nullptr) return;
  for (const InFlight& each : set->in_flight) {
    if (each.pending != nullptr) each.pending->Abort(reason);
  }
  const bool under_way = set->running != nullptr && set->running->communicator == set->on_gpu.get();
  if (under_way) set->in_flight.push_back({nullptr, std::move(set->running)});
  if (!set->in_flight.empty()) set->on_gpu->BeginAbort();
}

void Engine::EndAbortGpu(ProcessSet* set, const Deadline& deadline) {
  if (set->on_gpu == nullptr) return;
  set->on_gpu->EndAbort(deadline);
  if (set->in_flight.empty() || set->in_flight.back().pending != nullptr) return;
  // The batch was being enqueued and has no event yet; the caller frees its tensors when it hears
  // of the failure.
  (void)set->on_gpu->Settle(Deadline::After(kAfterAbort));
}

// Removes a set's GPU state: drains the stream, then shuts NCCL down together with the other
// members. Aborts instead if a member has died. Holds the turn meanwhile but keeps the heartbeat
// going.
void Engine::ShutDownGpu(ProcessSet* set, const Status& reason) {
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
  CheckInFlight(set);
  BeginAbortGpu(set, reason);
  if (!set->in_flight.empty() || !set->on_gpu->ShutDown(Until(Deadline::After(kLeaving), look))) {
    set->on_gpu->BeginAbort();
  }
  EndAbortGpu(set, Deadline::After(comm::nccl::kAbortPatience));
  FreeInFlight(set, beat);
  set->on_gpu.reset();
}

// Frees what in-flight batches use. Memory that the device does not let go of is leaked.
void Engine::FreeInFlight(ProcessSet* set, const Lookout& meanwhile) {
  if (set->on_gpu == nullptr || set->in_flight.empty()) return;
  if (!set->on_gpu->Settle(Until(Deadline::After(kSettle), meanwhile))) {
    log_.Warning("the GPU does not finish what it was given; what that uses is not freed");
    for (InFlight& each : set->in_flight) LeakOnPurpose(each.running.release());
  }
  set->in_flight.clear();
}

}  // namespace hvdlite::engine
