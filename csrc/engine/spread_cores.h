// SpreadCores: keeps the ranks of a host off one another's processor while another one is free.
//
// Ranks that wait for each other on one processor hand it over by sched_yield(). Both ran a moment
// ago, so the kernel considers their caches warm and moves neither, although another processor is
// idle. Every hand-over then costs a switch. Each rank therefore publishes the processor on which
// it waits. A rank that is about to yield checks for another rank of a lower number on its
// processor. If there is one, it moves its own thread: it forbids the thread the other ranks'
// processors, which the kernel obeys at once, and then restores its mask.
//
// Thread-safety: any thread; calls move the calling thread only.
#pragma once

#include <sched.h>

#include <atomic>
#include <vector>

#include "base/clock.h"
#include "transport/shm/host_segment.h"

namespace hvdlite::engine {

// DECIDES. Whether local rank `me` has to move, and to which processors: those that it may use and
// on which no rank was seen. seen[i] is the processor of local rank i, or -1. Always false if there
// are fewer processors than ranks.
bool MustMove(const cpu_set_t& allowed, const std::vector<int>& seen, int me, cpu_set_t* to);

class SpreadCores {
 public:
  // Borrows the segment. If not enabled, it only publishes.
  SpreadCores(transport::shm::HostSegment* segment, int local_rank, bool enabled)
      : segment_(*segment),
        local_rank_(local_rank),
        enabled_(enabled && segment->local_size() > 1) {}

  void Publish() {
    std::atomic<int32_t>& mine = segment_.line(local_rank_).processor;
    const int now = sched_getcpu();
    if (mine.load(std::memory_order_relaxed) != now) mine.store(now, std::memory_order_relaxed);
  }
  // Returns true if this thread was moved.
  bool Move(Nanos now);

  uint64_t moves() const { return moves_.load(std::memory_order_relaxed); }

 private:
  static constexpr Nanos kLookEvery = 20 * kMicrosecond;
  // A move costs two system calls and a cold cache.
  static constexpr Nanos kMoveEvery = kMillisecond;

  transport::shm::HostSegment& segment_;
  const int local_rank_;
  const bool enabled_;
  std::atomic<Nanos> next_look_{0};
  std::atomic<uint64_t> moves_{0};
};

}  // namespace hvdlite::engine
