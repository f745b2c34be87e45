// Until: a deadline, and a lookout that may end the wait earlier. Functions that block while ranks
// meet take one.
//
// A Deadline converts to an Until without a lookout. Thread-safety: that of the lookout.
#pragma once

#include <algorithm>
#include <functional>
#include <utility>

#include "base/clock.h"
#include "base/status.h"

namespace hvdlite {

// Checks, without waiting, for a reason to end the wait, such as the death of an awaited rank.
// Returns OK if there is none. Once it has returned an error it goes on returning it.
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
  // Short compared with the second within which the other ranks have to know; long enough to cost
  // nothing.
  static constexpr int kLookEveryMillis = 20;
};

}  // namespace hvdlite
