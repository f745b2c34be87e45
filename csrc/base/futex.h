// The kernel's compare-and-sleep. It also works between processes: the word lies in shared memory.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <ctime>

#include "base/clock.h"

namespace hvdlite {

enum class FutexResult : uint8_t { kWoken, kChanged, kTimeout, kInterrupted };

// Sleeps while *word == expected, for at most `span`. A signal ends the sleep (kInterrupted), so
// that Python can run its handlers at once.
inline FutexResult FutexWait(const std::atomic<uint32_t>* word, uint32_t expected, Nanos span) {
  timespec timeout;
  timeout.tv_sec = static_cast<time_t>(span / kSecond);
  timeout.tv_nsec = static_cast<long>(span % kSecond);
  const long rc = syscall(SYS_futex, word, FUTEX_WAIT, expected, &timeout, nullptr, 0);
  if (rc == 0) return FutexResult::kWoken;
  if (errno == EAGAIN) return FutexResult::kChanged;
  if (errno == EINTR) return FutexResult::kInterrupted;
  return FutexResult::kTimeout;
}

inline void FutexWake(const std::atomic<uint32_t>* word, int count = INT_MAX) {
  syscall(SYS_futex, word, FUTEX_WAKE, count, nullptr, nullptr, 0);
}

static_assert(sizeof(std::atomic<uint32_t>) == 4 && std::atomic<uint32_t>::is_always_lock_free);
static_assert(std::atomic<uint64_t>::is_always_lock_free, "shared-memory flags must be lock-free");

}  // namespace hvdlite
