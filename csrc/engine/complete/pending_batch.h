// PendingBatch: a batch that is enqueued on a GPU's stream and may not have finished there. Its
// handles share it.
//
// The first check after the event has fired marks the batch finished; nothing can fail it
// afterwards. A failure of the job marks it aborted before the device's work is aborted. So an
// event that fires because of the abort is never taken for a result. An aborted batch reports its
// failure once the device has stopped using the tensors, or after kAbortWait: the caller then frees
// them. Thread-safety: any thread.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "device/gpu.h"

namespace hvdlite::engine {

class PendingBatch {
 public:
  explicit PendingBatch(device::EventPtr finished) : finished_(std::move(finished)) {}

  // Whether the results are complete. Fails if the device has failed, or if the job failed before
  // the batch had finished.
  Status Finished(bool* finished) EXCLUDES(mutex_) {
    *finished = state_.load(std::memory_order_acquire) == State::kFinished;
    if (*finished) return Status::Ok();
    bool fired = false;
    Status queried = finished_->Query(&fired);
    MutexLock lock(mutex_);
    if (state_ == State::kAborted)
      return fired || !queried.ok() || given_up_.Passed() ? why_ : Status::Ok();
    if (!queried.ok()) return queried;
    if (fired) state_.store(State::kFinished, std::memory_order_release);
    *finished = fired;
    return Status::Ok();
  }

  // Waits until the batch has finished, or about the deadline; a signal ends the wait early.
  Status Wait(Deadline deadline, bool* finished) EXCLUDES(mutex_) {
    constexpr Nanos kShortest = 20 * kMicrosecond;
    constexpr Nanos kLongest = kMillisecond;
    for (Nanos nap = kShortest;; nap = std::min(2 * nap, kLongest)) {
      HVDLITE_RETURN_IF_ERROR(Finished(finished));
      if (*finished || deadline.Passed() ||
          usleep(static_cast<useconds_t>(nap / kMicrosecond)) != 0)
        return Status::Ok();
    }
  }

  // Makes `stream` wait for the batch, even if it is aborted: the device may still write until it
  // has ended the batch. The stream is told once, because each handle of the batch asks for it.
  Status MakeWait(device::Stream stream) EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      if (waits_ == stream) return state_ == State::kAborted ? why_ : Status::Ok();
    }
    const Status held = finished_->MakeWait(stream);
    MutexLock lock(mutex_);
    if (held.ok() && device::IsOneStream(stream)) waits_ = stream;
    return state_ == State::kAborted ? why_ : held;
  }

  void Abort(const Status& why) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (state_ != State::kPending) return;
    why_ = why;
    given_up_ = Deadline::After(kAbortWait);
    state_ = State::kAborted;
  }

 private:
  enum class State : uint8_t { kPending, kFinished, kAborted };
  // NCCL's kernels end within milliseconds of an abort.
  static constexpr Nanos kAbortWait = 2 * kSecond;

  const device::EventPtr finished_;
  std::atomic<State> state_{State::kPending};
  Mutex mutex_;  // orders finishing and aborting
  Status why_ GUARDED_BY(mutex_);
  Deadline given_up_ GUARDED_BY(mutex_) = Deadline::Never();
  std::optional<device::Stream> waits_ GUARDED_BY(mutex_);  // the last that was told to wait
};

using PendingBatchPtr = std::shared_ptr<PendingBatch>;

}  // namespace hvdlite::engine
