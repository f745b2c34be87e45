// Doorbells: how a rank sleeps until another rank of its host has news, and how the other one wakes it.
//
// A poster first publishes its news (a sequentially consistent store), then calls Ring; a sleeper first calls
// BeginSleep, then looks for news once more, and only then sleeps. Whichever order these interleave in, either the
// sleeper sees the news or the poster sees the sleeper. While nobody sleeps, ringing costs one load.
//
// Thread-safety: all of it.
#pragma once

#include <poll.h>

#include <vector>

#include "base/clock.h"
#include "base/futex.h"
#include "transport/shm/host_segment.h"

namespace hvdlite::transport {

class Doorbells {
 public:
  // `eventfds` by local rank, or empty when every rank of this host sleeps on futexes. Borrows all arguments.
  Doorbells(HostSegment* segment, int local_rank, std::vector<int> eventfds)
      : segment_(segment), local_rank_(local_rank), eventfds_(std::move(eventfds)) {
    mine().uses_eventfd.store(eventfds_.empty() ? 0 : 1, std::memory_order_seq_cst);
  }

  void Ring(int local_rank) {
    RankLine& line = segment_->line(local_rank);
    if (line.sleepers.load(std::memory_order_seq_cst) != 0) Wake(local_rank, line);
  }
  // Wakes this rank's own sleepers (another thread of this process has news).
  void RingSelf() { Ring(local_rank_); }
  void RingEveryone() {
    for (int i = 0; i < segment_->local_size(); ++i) Ring(i);
  }

  // Announces that this thread is about to sleep; returns the ticket for Sleep. Pair with EndSleep.
  uint32_t BeginSleep() {
    mine().sleepers.fetch_add(1, std::memory_order_seq_cst);
    return mine().bell.load(std::memory_order_seq_cst);
  }
  void EndSleep() { mine().sleepers.fetch_sub(1, std::memory_order_seq_cst); }
  // Sleeps until rung, until one of `fds` is ready, or until `span` has passed. Returns kInterrupted on a signal.
  FutexResult Sleep(uint32_t ticket, std::vector<pollfd>* fds, Nanos span);

  HostSegment& segment() { return *segment_; }
  int local_rank() const { return local_rank_; }

 private:
  RankLine& mine() { return segment_->line(local_rank_); }
  void Wake(int local_rank, RankLine& line);

  HostSegment* const segment_;
  const int local_rank_;
  const std::vector<int> eventfds_;
};

}  // namespace hvdlite::transport
