#include "engine/execute/in_flight.h"

#include <utility>

#include "base/leak.h"

namespace hvdlite::engine {

namespace {

// How long the device may take for the rest of a stream when its process set ends.
constexpr Nanos kSettle = 2 * kSecond;
// How long the other members may take to reach the same point when a set is removed.
constexpr Nanos kLeaving = 5 * kSecond;
// How long a batch that was being enqueued when the job failed may take. Usually the abort has
// ended it, but its producer may be late.
constexpr Nanos kAfterAbort = 500 * kMillisecond;

}  // namespace

Status InFlight::Open(comm::World* world, const comm::Group& group) {
  if (!open()) communicator_ = world->OnGpu(group);
  return communicator_->FindGpu();
}

void InFlight::Add(std::unique_ptr<Running> running, PendingBatchPtr pending) {
  running->entries.clear();  // their handles are done
  batches_.push_back({std::move(pending), std::move(running)});
}

Status InFlight::Sweep() {
  while (!batches_.empty()) {
    bool finished = false;
    HVDLITE_RETURN_IF_ERROR(batches_.front().pending->Finished(&finished));
    if (!finished) break;
    batches_.pop_front();
  }
  return Status::Ok();
}

bool InFlight::busy() const {
  if (batches_.empty() || batches_.back().pending == nullptr) return false;
  bool finished = false;
  return batches_.back().pending->Finished(&finished).ok() && !finished;
}

void InFlight::BeginAbort(const Status& reason, bool alone, std::unique_ptr<Running>* running) {
  if (!open()) return;
  for (const Batch& each : batches_) {
    if (each.pending != nullptr) each.pending->Abort(reason);
  }
  if (*running != nullptr && Carries(**running)) batches_.push_back({nullptr, std::move(*running)});
  if (alone || !batches_.empty()) communicator_->BeginAbort();
}

void InFlight::EndAbort(const Deadline& deadline) {
  if (!open()) return;
  communicator_->EndAbort(deadline);
  if (batches_.empty() || batches_.back().pending != nullptr) return;
  // The batch was being enqueued and has no event yet. The caller frees its tensors when it learns
  // of the failure.
  (void)communicator_->Settle(Deadline::After(kAfterAbort));
}

Deadline InFlight::AbortDeadline() {
  return Deadline::After(comm::nccl::kAbortPatience);
}

void InFlight::Drain(const WaitCheck& look) {
  if (open()) (void)communicator_->Settle(Until(Deadline::After(kSettle), look));
}

void InFlight::ShutDown(const Status& reason, std::unique_ptr<Running>* running,
                        const WaitCheck& look, const WaitCheck& beat, const Logger& log) {
  if (!open()) return;
  BeginAbort(reason, /*alone=*/false, running);
  if (!empty() || !communicator_->ShutDown(Until(Deadline::After(kLeaving), look)))
    communicator_->BeginAbort();
  EndAbort(AbortDeadline());
  Free(log, beat);
  Close();
}

void InFlight::Free(const Logger& log, const WaitCheck& meanwhile) {
  if (!open() || batches_.empty()) return;
  if (!communicator_->Settle(Until(Deadline::After(kSettle), meanwhile))) {
    log.Warning(
        "the GPU does not finish the work it was given; memory that the work uses is not freed");
    for (Batch& each : batches_) LeakOnPurpose(each.running.release());
  }
  batches_.clear();
}

}  // namespace hvdlite::engine
