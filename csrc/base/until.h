// Until: a deadline, and a check that may end the wait earlier. Functions that block while ranks
// meet take one.
//
// A Deadline converts to an Until without a check. Thread-safety: that of the check.
#pragma once

#include <algorithm>
#include <functional>
#include <utility>

#include "base/clock.h"
#include "base/status.h"

namespace hvdlite {

// Checks, without waiting, for a reason to end the wait, such as the death of an awaited rank.
// Returns OK if there is none. Once it has returned an error it goes on returning it.
using WaitCheck = std::function<Status()>;

struct Until {
  Until(Deadline d, WaitCheck c = nullptr)
      : deadline(d), check(std::move(c)) {}  // NOLINT: meant to convert

  Status Look() const { return check ? check() : Status::Ok(); }
  // For poll(2): how long to sleep before the next Look.
  int SliceMillis(int cap) const {
    return deadline.LeftMillis(check ? std::min(cap, kLookEveryMillis) : cap);
  }

  Deadline deadline;
  WaitCheck check;

 private:
  // Short compared with the second within which the other ranks have to know; long enough to cost
  // nothing.
  static constexpr int kLookEveryMillis = 20;
};

}  // namespace hvdlite
