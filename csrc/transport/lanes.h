// Lanes: which of several connections to one peer carries the next block. DECIDES; pure.
//
// A block goes where it is expected to be delivered first: behind the bytes that the lane has not
// delivered yet, at the lane's speed. So lanes of one speed take turns, and a slow lane gets a
// block only if a fast one would deliver it later. A lane that is much slower than the fastest gets
// none: it would add little, and a packet that it loses delays the others for long. Of idle lanes
// that are about equally fast the first is taken, so short messages have one way.
//
// A lane's speed is the best of the last few that were measured while it had bytes to deliver. Its
// peer's pauses, late looks and lost packets make a lane seem slow, and hardly anything makes it
// seem fast.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.h"

namespace hvdlite::transport {

class Lane {
 public:
  // Acknowledgements come in lumps, and a token bucket passes the first bytes at once. So a shorter
  // stretch says little.
  static constexpr uint64_t kStretch = 256 << 10;
  static constexpr uint64_t kFirstStretch = 64 << 10;
  static constexpr size_t kRemember = 8;  // stretches
  // Fewer bytes than this take as long as their way, whatever the lane's speed. As the last of a
  // message, they may wait for a delayed acknowledgement.
  static constexpr uint64_t kLeast = 16 << 10;
  // A lane that has been idle for so long may be faster now. It counts as twice as fast, and so
  // on, until it is tried again.
  static constexpr Nanos kTryAgain = kSecond;

  // `delivered`: bytes so far; `queued`: bytes sent and not yet delivered.
  void Look(uint64_t delivered, uint64_t queued, Nanos now) {
    const bool was_idle = idle();
    queued_ = queued < kLeast ? 0 : queued;
    if (was_idle) {
      from_ = delivered;
      if (now - since_ < kTryAgain) return;
      for (double& cost : recent_) cost /= 2;
      since_ = now;
      return;
    }
    const uint64_t bytes = delivered - from_;
    if (!idle() && bytes_ + bytes < kStretch) return;
    if (!idle() || bytes >= kLeast) {
      bytes_ += bytes;
      span_ += now - since_;
    }
    from_ = delivered;
    since_ = now;
    if (bytes_ < (next_ == 0 && idle() ? kFirstStretch : kStretch)) return;
    recent_[next_++ % kRemember] = static_cast<double>(span_) / static_cast<double>(bytes_);
    bytes_ = 0;
    span_ = 0;
  }
  // The lane has been given more bytes.
  void Sent(uint64_t bytes, Nanos now) {
    if (idle()) since_ = now;
    queued_ += bytes;
  }

  bool idle() const { return queued_ == 0; }
  uint64_t queued() const { return queued_; }
  // 0: unknown.
  double nanos_per_byte() const {
    double best = 0;
    for (const double cost : recent_) {
      if (cost > 0 && (best == 0 || cost < best)) best = cost;
    }
    return best;
  }

 private:
  uint64_t queued_ = 0;
  // Of the time in which the lane has bytes: since when, and how many were delivered before.
  Nanos since_ = 0;
  uint64_t from_ = 0;
  // The earlier such times of this stretch.
  uint64_t bytes_ = 0;
  Nanos span_ = 0;
  std::array<double, kRemember> recent_{};  // nanoseconds per byte
  size_t next_ = 0;
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
  return Fastest(lanes) > kNanosPerByteAt5Gbit ? 64 << 10 : 128 << 10;
}

// Chooses the lane of a block of `bytes`. A lane of unknown speed is taken to be as fast as the
// fastest, for one block at a time.
inline size_t ChooseLane(std::span<const Lane> lanes, size_t bytes) {
  constexpr double kMuchSlower = 4;
  constexpr double kAboutEqual = 0.8;
  const double fastest = Fastest(lanes);
  size_t best = lanes.size();
  double best_time = 0;
  for (size_t i = 0; i < lanes.size(); ++i) {
    const Lane& lane = lanes[i];
    const bool known = lane.nanos_per_byte() > 0;
    const double cost = known ? lane.nanos_per_byte() : std::max(fastest, 1.0);
    if (known && cost > kMuchSlower * fastest) continue;
    if (!known && fastest > 0 && !lane.idle()) continue;
    const double time = static_cast<double>(lane.queued() + bytes) * cost;
    if (best < lanes.size()) {
      const bool both_idle = lane.idle() && lanes[best].idle();
      if (time >= best_time * (both_idle ? kAboutEqual : 1)) continue;
    }
    best = i;
    best_time = time;
  }
  return best;
}

}  // namespace hvdlite::transport
