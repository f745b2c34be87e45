// Pace: whether links deliver so slowly that a thread should sleep for their bytes. DECIDES; pure.
//
// A thread that spins takes each packet as it arrives. At 1 Gbit/s that is a system call and a turn
// of the engine for every 1500 bytes, so the thread is busy all the time. A thread that sleeps
// until many packets have arrived takes them with one call, and the transfer takes as long. At
// 10 Gbit/s copies, sums and check words leave a thread hardly any time to sleep.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/clock.h"

namespace hvdlite::comm::net {

class Pace {
 public:
  static constexpr size_t kWindow = 128 << 10;
  // Slow: a window takes longer (5 Gbit/s). Waking a sleeper takes 20-40 us.
  static constexpr Nanos kSlowFrom = 200 * kMicrosecond;
  // On an even slower link (10 Mbit/s) packets are so rare that a thread sleeps between them
  // anyway.
  static constexpr Nanos kSlowTo = 100 * kMillisecond;
  // Fewer bytes than this are worth neither a turn nor, unless they are the last, waking a thread.
  static constexpr size_t kFew = 16 << 10;

  // A work begins. Its peers may be late, so time counts from its first bytes.
  void Restart() {
    began_ = 0;
    bytes_ = 0;
  }
  void Received(size_t bytes, Nanos now) {
    if (began_ == 0) {
      began_ = now;
      return;
    }
    bytes_ += bytes;
    if (bytes_ < kWindow) return;
    slow_ = now - began_ > kSlowFrom && now - began_ < kSlowTo;
    began_ = now;
    bytes_ = 0;
  }

  bool slow() const { return slow_; }
  // How many of `wanted` bytes should have arrived before a sleeper wakes.
  size_t WakeAt(size_t wanted) const {
    return slow_ ? std::max(std::min(wanted, kFew), wanted / 2) : 1;
  }
  // Whether a receive that moved `moved` of `wanted` bytes should be followed by a sleep.
  bool Trickles(size_t moved, size_t wanted) const {
    return slow_ && moved < wanted && moved < kFew;
  }

 private:
  Nanos began_ = 0;   // 0: nothing has arrived yet
  size_t bytes_ = 0;  // since then
  bool slow_ = false;
};

}  // namespace hvdlite::comm::net
