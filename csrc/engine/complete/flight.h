// Flight: a batch that has been put on a GPU's stream and is not known to be done there. Its handles share it.
//
// Whoever looks first when the event has fired notes that it has landed, after which nothing can spoil it. A failure of the
// job makes it lost, and only then is the device's work ended by force: so an event that fires because of that is never
// taken for a result. Nobody hears of the loss before the device has let go of the tensors (it is asked for some seconds at most):
// whoever hears of it frees them.
// Thread-safety: everything.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "device/gpu.h"

namespace hvdlite::engine {

class Flight {
 public:
  explicit Flight(device::EventPtr finished) : finished_(std::move(finished)) {}

  // Whether results are there. A failure: of the device, or of the job before they were.
  Status Landed(bool* landed) EXCLUDES(mutex_) {
    *landed = state_.load(std::memory_order_acquire) == State::kLanded;
    if (*landed) return Status::Ok();
    bool fired = false;
    Status queried = finished_->Query(&fired);
    MutexLock lock(mutex_);
    if (state_ == State::kLost) return fired || !queried.ok() || given_up_.Passed() ? why_ : Status::Ok();
    if (!queried.ok()) return queried;
    if (fired) state_.store(State::kLanded, std::memory_order_release);
    *landed = fired;
    return Status::Ok();
  }

  // Waits for that, not much longer than until the deadline; a signal ends it early.
  Status Wait(Deadline deadline, bool* landed) EXCLUDES(mutex_) {
    constexpr Nanos kShortest = 20 * kMicrosecond;
    constexpr Nanos kLongest = kMillisecond;
    for (Nanos nap = kShortest;; nap = std::min(2 * nap, kLongest)) {
      HVDLITE_RETURN_IF_ERROR(Landed(landed));
      if (*landed || deadline.Passed() || usleep(static_cast<useconds_t>(nap / kMicrosecond)) != 0) return Status::Ok();
    }
  }

  // What is put on `stream` from now on comes after it. That holds for a lost one, too: until it has ended the device may
  // still write where somebody wants to put something else.
  Status HoldBack(device::Stream stream) EXCLUDES(mutex_) {
    const Status held = finished_->HoldBack(stream);
    MutexLock lock(mutex_);
    return state_ == State::kLost ? why_ : held;
  }

  void Lose(const Status& why) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (state_ != State::kFlying) return;
    why_ = why;
    given_up_ = Deadline::After(kLettingGo);
    state_ = State::kLost;
  }

 private:
  enum class State : uint8_t { kFlying, kLanded, kLost };
  // NCCL's kernels end within milliseconds of its abort.
  static constexpr Nanos kLettingGo = 2 * kSecond;

  const device::EventPtr finished_;
  std::atomic<State> state_{State::kFlying};
  Mutex mutex_;  // orders landing and loss
  Status why_ GUARDED_BY(mutex_);
  Deadline given_up_ GUARDED_BY(mutex_) = Deadline::Never();
};

using FlightPtr = std::shared_ptr<Flight>;

}  // namespace hvdlite::engine
