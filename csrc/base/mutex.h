// std::mutex with the annotations that clang's -Wthread-safety checks. Every member that a mutex
// guards says so with GUARDED_BY; functions named ...Locked carry REQUIRES.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/clock.h"

#if defined(__clang__)
#define HVDLITE_TSA(x) __attribute__((x))
#else
#define HVDLITE_TSA(x)
#endif

#define CAPABILITY(x) HVDLITE_TSA(capability(x))
#define SCOPED_CAPABILITY HVDLITE_TSA(scoped_lockable)
#define GUARDED_BY(x) HVDLITE_TSA(guarded_by(x))
#define REQUIRES(...) HVDLITE_TSA(requires_capability(__VA_ARGS__))
#define ACQUIRE(...) HVDLITE_TSA(acquire_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) HVDLITE_TSA(try_acquire_capability(__VA_ARGS__))
#define RELEASE(...) HVDLITE_TSA(release_capability(__VA_ARGS__))
#define EXCLUDES(...) HVDLITE_TSA(locks_excluded(__VA_ARGS__))
#define NO_THREAD_SAFETY_ANALYSIS HVDLITE_TSA(no_thread_safety_analysis)

namespace hvdlite {

class CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void Lock() ACQUIRE() { mutex_.lock(); }
  bool TryLock() TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void Unlock() RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() RELEASE() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class CondVar {
 public:
  // Returns false when `span` passed without a notification. Spurious wake-ups happen, so loop on
  // the condition.
  bool WaitFor(Mutex& mutex, Nanos span) REQUIRES(mutex) NO_THREAD_SAFETY_ANALYSIS {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    // Old TSAN runtimes understand only system_clock::wait_until. Spans here are short.
    const bool notified =
        cv_.wait_until(lock, std::chrono::system_clock::now() + std::chrono::nanoseconds(span)) ==
        std::cv_status::no_timeout;
    lock.release();
    return notified;
  }
  void NotifyOne() { cv_.notify_one(); }
  void NotifyAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace hvdlite
