// How long to wait, and for what news to stop waiting before: what a function takes that blocks
// while ranks meet.
//
// Converts from a Deadline, where no news can come. Thread-safety: as the lookout's.
#pragma once

#include <algorithm>
#include <functional>
#include <utility>

#include "base/clock.h"
#include "base/status.h"

namespace hvdlite {

// Looks, without waiting, for a reason not to wait any longer: a rank that is waited for has died.
// OK: none. Once it has found one it goes on saying so.
using Lookout = std::function<Status()>;

struct Until {
  Until(Deadline d, Lookout l = nullptr)
      : deadline(d), lookout(std::move(l)) {}  // NOLINT: meant to convert

  Status Look() const { return lookout ? lookout() : Status::Ok(); }
  // For poll(2): how long to sleep before the next Look.
  int SliceMillis(int cap) const {
    return deadline.LeftMillis(lookout ? std::min(cap, kLookEveryMillis) : cap);
  }

  Deadline deadline;
  Lookout lookout;

 private:
  // Short against the second within which the others have to know; long enough to cost nothing.
  static constexpr int kLookEveryMillis = 20;
};

}  // namespace hvdlite
