#include "transport/shm/doorbells.h"

#include <sched.h>
#include <unistd.h>

namespace hvdlite::transport::shm {

void Doorbells::Wake(int local_rank, RankLine& line) {
  line.bell.fetch_add(1, std::memory_order_seq_cst);
  if (line.uses_eventfd.load(std::memory_order_seq_cst) != 0 &&
      static_cast<size_t>(local_rank) < eventfds_.size()) {
    const uint64_t one = 1;
    // Fails only when the counter is full, and then the sleeper is awake already.
    [[maybe_unused]] const ssize_t written = write(eventfds_[local_rank], &one, sizeof(one));
  } else {
    FutexWake(&line.bell);
  }
}

FutexResult Doorbells::Sleep(uint32_t ticket, std::vector<pollfd>* fds, Nanos span) {
  if (eventfds_.empty()) return FutexWait(&mine().bell, ticket, span);

  fds->push_back({eventfds_[local_rank_], POLLIN, 0});
  timespec timeout;
  timeout.tv_sec = static_cast<time_t>(span / kSecond);
  timeout.tv_nsec = static_cast<long>(span % kSecond);
  if (mine().bell.load(std::memory_order_seq_cst) != ticket) return FutexResult::kChanged;
  const int ready = ppoll(fds->data(), fds->size(), &timeout, nullptr);
  if (ready < 0) return FutexResult::kInterrupted;
  if (ready == 0) return FutexResult::kTimeout;
  // The bell was rung before this thread slept, for another sleeper that is not up yet. Let that
  // one run, instead of waking again and again.
  if (mine().bell.load(std::memory_order_seq_cst) == ticket && fds->back().revents != 0)
    sched_yield();
  return FutexResult::kWoken;
}

void Doorbells::EnterPoll() {
  MutexLock lock(polling_mutex_);
  ++polling_;
}

void Doorbells::LeavePoll() {
  MutexLock lock(polling_mutex_);
  if (--polling_ > 0) return;
  // A ring that is emptied here came before the next sleeper announces itself. That sleeper looks
  // for news before it sleeps, so it needs no bell.
  uint64_t count;
  [[maybe_unused]] const ssize_t drained =
      read(eventfds_[static_cast<size_t>(local_rank_)], &count, sizeof(count));
}

}  // namespace hvdlite::transport::shm
