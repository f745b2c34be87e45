// Suspicion: a broken link of a process set: a rank leaves, the set ends or a rank has failed. It
// waits a moment for news of which it is, and which rank is the cause. Sets::AwaitDecisions waits
// as long for decisions that a peer's abort has overtaken. DECIDES; pure.
#pragma once

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/status.h"

namespace hvdlite::engine {

class Suspicion {
 public:
  // Only the first broken link counts.
  void Begin(Status status, Nanos now, bool in_world) {
    if (!status_.ok()) return;
    status_ = std::move(status);
    since_ = now;
    until_ = now + (in_world ? kInWorld : kInSet);
  }
  bool open() const { return !status_.ok(); }
  // The world still has decisions to carry out. The removal of the set may be among them.
  void WaitForWorld(Nanos now) { until_ = std::min(now + kInSet, since_ + kLongest); }
  // Null, or the failure if no news has explained it in time.
  const Status* Failure(Nanos now) const {
    return status_.ok() || now <= until_ ? nullptr : &status_;
  }

  // News of a death travels in milliseconds.
  static constexpr Nanos kInWorld = 300 * kMillisecond;
  // A peer may have learned before this rank that the set is removed. If the peer is dead, the
  // world's links report it long before.
  static constexpr Nanos kInSet = 5 * kSecond;
  // The longest wait, however busy the world is.
  static constexpr Nanos kLongest = 60 * kSecond;

 private:
  Status status_;
  Nanos since_ = 0;
  Nanos until_ = 0;
};

}  // namespace hvdlite::engine
