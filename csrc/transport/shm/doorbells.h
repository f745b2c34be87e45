// Doorbells: how a rank sleeps until another rank of its host has news, and how that rank wakes it.
//
// A poster first publishes its news (a sequentially consistent store), then calls Ring. A sleeper
// first calls BeginSleep, then looks for news once more, and only then sleeps. However these
// interleave, either the sleeper sees the news or the poster sees the sleeper (Dekker's argument:
// each side stores, then loads what the other stores, all sequentially consistent; both loads
// cannot come before both stores). A poster that sees the sleeper changes the bell, whose value the
// sleeper took before it looked. A futex refuses to sleep on a changed bell, and Sleep checks the
// bell before it polls; an eventfd written after that check ends the poll. While no thread sleeps,
// ringing costs one load.
//
// Several threads of a rank may sleep at once (the driver and the background thread). A ring wakes
// all of them. The futex does so by itself; an eventfd stays readable until the last sleeper ends
// its sleep and empties it.
//
// Thread-safety: any thread.
#pragma once

#include <poll.h>

#include <vector>

#include "base/clock.h"
#include "base/futex.h"
#include "base/mutex.h"
#include "transport/shm/host_segment.h"

namespace hvdlite::transport::shm {

class Doorbells {
 public:
  // `eventfds` has one entry per local rank, or is empty when every rank of this host sleeps on
  // futexes. Borrows all arguments.
  Doorbells(HostSegment* segment, int local_rank, std::vector<int> eventfds)
      : segment_(segment), local_rank_(local_rank), eventfds_(std::move(eventfds)) {
    mine().uses_eventfd.store(eventfds_.empty() ? 0 : 1, std::memory_order_seq_cst);
  }

  void Ring(int local_rank) {
    RankLine& line = segment_->line(local_rank);
    if (line.sleepers.load(std::memory_order_seq_cst) != 0) Wake(local_rank, line);
  }
  // Wakes this rank's own sleepers, when another thread of this process has news.
  void RingSelf() { Ring(local_rank_); }
  void RingEveryone() {
    for (int i = 0; i < segment_->local_size(); ++i) Ring(i);
  }

  // Announces that this thread is about to sleep; returns the ticket for Sleep. Pair with EndSleep.
  uint32_t BeginSleep() {
    if (!eventfds_.empty()) EnterPoll();
    mine().sleepers.fetch_add(1, std::memory_order_seq_cst);
    return mine().bell.load(std::memory_order_seq_cst);
  }
  void EndSleep() {
    mine().sleepers.fetch_sub(1, std::memory_order_seq_cst);
    if (!eventfds_.empty()) LeavePoll();
  }
  // Sleeps until rung, until one of `fds` is ready, or until `span` has passed. Returns
  // kInterrupted on a signal.
  FutexResult Sleep(uint32_t ticket, std::vector<pollfd>* fds, Nanos span);

  HostSegment& segment() { return *segment_; }
  int local_rank() const { return local_rank_; }

 private:
  RankLine& mine() { return segment_->line(local_rank_); }
  void Wake(int local_rank, RankLine& line);
  void EnterPoll() EXCLUDES(polling_mutex_);
  void LeavePoll() EXCLUDES(polling_mutex_);

  HostSegment* const segment_;
  const int local_rank_;
  const std::vector<int> eventfds_;
  // Eventfds only: the number of this rank's threads between BeginSleep and EndSleep. The mutex
  // keeps a new sleeper out while the last one empties the eventfd. Otherwise the last one could
  // take the new sleeper's ring.
  Mutex polling_mutex_;
  int polling_ GUARDED_BY(polling_mutex_) = 0;
};

}  // namespace hvdlite::transport::shm
