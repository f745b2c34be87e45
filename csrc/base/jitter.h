// Jitter: sleeps for a random time at points where threads or ranks race, so that a stress test
// meets interleavings that an idle machine never shows. It is off unless
// HVDLITE_DEBUG_DELAY_MICROSECONDS is set, and then costs a single test of a constant.
//
// Thread-safety: any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>

#include "base/clock.h"

namespace hvdlite {

class Jitter {
 public:
  // Sleeps last up to `most`. A different `seed` in each rank makes the ranks differ.
  Jitter(Nanos most, uint64_t seed) : most_(most), count_(seed << 32) {}

  void operator()() const {
    if (most_ > 0) Sleep();
  }
  // The length of the n-th sleep: any span up to `most`, but 0 half of the time, so that one side
  // of a race is often quick.
  static Nanos Span(uint64_t n, Nanos most) {
    // splitmix64: one addition per draw, so threads need no generators of their own.
    uint64_t z = (n + 1) * 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    return (z & 1) != 0 ? 0 : static_cast<Nanos>((z >> 1) % (static_cast<uint64_t>(most) + 1));
  }

 private:
  void Sleep() const {
    const Nanos span = Span(count_.fetch_add(1, std::memory_order_relaxed), most_);
    if (span == 0) return;
    const timespec pause = {static_cast<time_t>(span / kSecond), static_cast<long>(span % kSecond)};
    nanosleep(&pause, nullptr);  // a signal ends it early: good enough
  }

  const Nanos most_;
  mutable std::atomic<uint64_t> count_;
};

}  // namespace hvdlite
