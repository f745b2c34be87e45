// Lanes: which of several connections to one peer carries the next block. DECIDES; pure.
//
// A block goes where it is expected to be delivered first: behind the bytes that the lane has not
// delivered yet, at the lane's speed. So lanes of one speed take turns, and a slow lane gets a
// block only if a fast one would deliver it later. A lane that is much slower than the fastest gets
// none: it would add little, and a packet that it loses delays the others for long.
//
// A lane's speed is measured while it has bytes to deliver. The mean is that of the time per byte,
// so one slow stretch counts for more than one burst. Look often: what happens between two looks is
// not known.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/clock.h"

namespace hvdlite::transport {

class Lane {
 public:
  // Acknowledgements come in lumps, and a token bucket passes the first bytes at once. So a shorter
  // stretch says little.
  static constexpr uint64_t kStretch = 64 << 10;
  // A lane that has been idle for so long may be faster now. It counts as twice as fast, and so
  // on, until it is tried again.
  static constexpr Nanos kTryAgain = kSecond;

  // `delivered`: bytes so far; `queued`: bytes sent and not yet delivered.
  void Look(uint64_t delivered, uint64_t queued, Nanos now) {
    const bool was_idle = queued_ == 0;
    const Nanos last_look = std::exchange(looked_, now);
    queued_ = queued;
    if (was_idle) {
      if (now - since_ < kTryAgain) return;
      nanos_per_byte_ /= 2;
      since_ = now;
      return;
    }
    const uint64_t bytes = delivered - from_;
    if (bytes < kStretch && queued > 0) return;
    const Nanos span = now - since_;
    if (bytes >= kStretch) {
      // A lane that has been empty for a part of the time is at least so fast.
      const bool exact = queued > 0 || now - last_look <= span / 4;
      Learn(static_cast<double>(span) / static_cast<double>(bytes), exact);
    }
    since_ = now;
    from_ = delivered;
  }
  // The lane has been given more bytes.
  void Sent(uint64_t bytes, Nanos now) {
    if (queued_ == 0) since_ = now;
    queued_ += bytes;
  }

  uint64_t queued() const { return queued_; }
  double nanos_per_byte() const { return nanos_per_byte_; }  // 0: unknown

 private:
  void Learn(double sample, bool exact) {
    if (nanos_per_byte_ == 0) {
      nanos_per_byte_ = sample;
    } else {
      nanos_per_byte_ = exact ? (nanos_per_byte_ + sample) / 2 : std::min(nanos_per_byte_, sample);
    }
  }

  uint64_t queued_ = 0;
  Nanos looked_ = 0;
  Nanos since_ = 0;
  uint64_t from_ = 0;  // delivered at since_
  double nanos_per_byte_ = 0;
};

// The time per byte of the fastest lane, or 0 if none is known.
inline double Fastest(std::span<const Lane> lanes) {
  double fastest = 0;
  for (const Lane& lane : lanes) {
    const double cost = lane.nanos_per_byte();
    if (cost > 0 && (fastest == 0 || cost < fastest)) fastest = cost;
  }
  return fastest;
}

// How many bytes a block should have. Small blocks end at the same time on all lanes, but each
// costs system calls, which count at more than 5 Gbit/s.
inline size_t BlockBytes(std::span<const Lane> lanes) {
  constexpr double kNanosPerByteAt5Gbit = 1.6;
  return Fastest(lanes) > kNanosPerByteAt5Gbit ? 32 << 10 : 128 << 10;
}

// Chooses the lane of a block of `bytes`. A lane of unknown speed is taken to be as fast as the
// fastest, for one block at a time. Among equals the first behind `last` is chosen.
inline size_t ChooseLane(std::span<const Lane> lanes, size_t bytes, size_t last) {
  constexpr double kMuchSlower = 4;
  const double fastest = Fastest(lanes);
  size_t best = lanes.size();
  double best_time = 0;
  for (size_t i = 1; i <= lanes.size(); ++i) {
    const Lane& lane = lanes[(last + i) % lanes.size()];
    const bool known = lane.nanos_per_byte() > 0;
    if (!known && fastest > 0 && lane.queued() > 0) continue;
    const double cost = known ? lane.nanos_per_byte() : std::max(fastest, 1.0);
    if (known && cost > kMuchSlower * fastest) continue;
    const double time = static_cast<double>(lane.queued() + bytes) * cost;
    if (best < lanes.size() && time >= best_time) continue;
    best = (last + i) % lanes.size();
    best_time = time;
  }
  return best;
}

}  // namespace hvdlite::transport
