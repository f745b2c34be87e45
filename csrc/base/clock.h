// Monotonic time and deadlines. Functions that wait take a Deadline. Functions that decide take
// "now" as an argument, so that tests can pass any time.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>

namespace hvdlite {

using Nanos = int64_t;  // a point or a span of the monotonic clock

constexpr Nanos kMicrosecond = 1000;
constexpr Nanos kMillisecond = 1000 * kMicrosecond;
constexpr Nanos kSecond = 1000 * kMillisecond;
constexpr Nanos kForever = std::numeric_limits<Nanos>::max();

inline Nanos MonotonicNow() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A point in time after which waiting is an error. Copyable, immutable.
class Deadline {
 public:
  static Deadline Never() { return Deadline(kForever); }
  static Deadline After(Nanos span) {
    return Deadline(span == kForever ? kForever : MonotonicNow() + span);
  }
  static Deadline AfterSeconds(double seconds) {
    return After(static_cast<Nanos>(seconds * static_cast<double>(kSecond)));
  }

  bool never() const { return at_ == kForever; }
  bool Passed() const { return at_ != kForever && MonotonicNow() >= at_; }
  // The time left, at least 0 and at most `cap`.
  Nanos Left(Nanos cap = kForever) const {
    if (at_ == kForever) return cap;
    const Nanos left = at_ - MonotonicNow();
    return left < 0 ? 0 : (left < cap ? left : cap);
  }
  // The time left in milliseconds, for poll(2). Rounded up, so that a wait never returns just
  // before the deadline.
  int LeftMillis(int cap) const {
    const Nanos left = Left(static_cast<Nanos>(cap) * kMillisecond);
    return static_cast<int>((left + kMillisecond - 1) / kMillisecond);
  }

 private:
  explicit Deadline(Nanos at) : at_(at) {}
  Nanos at_;
};

}  // namespace hvdlite
