// Unlocked: releases the interpreter lock for a scope, as py::gil_scoped_release does. It also
// handles an interpreter that is finalising.
//
// Python ends a thread that asks for the lock during finalisation by unwinding its stack, to which
// C++ responds with std::terminate. So a daemon thread that returns too late waits here for ever.
// ThreadsInside() lets the exit handler wait until the threads that an ended job releases have
// returned.
//
// StateMutex guards what the interpreter lock guards, in a Python that has none.
#pragma once

#include <pybind11/pybind11.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

namespace hvdlite::bindings {

// How long a call waits before it checks for signals: long enough to cost nothing, short enough
// that Ctrl-C feels immediate while a thread spins (the signal itself wakes a sleeping thread).
constexpr double kSlice = 0.1;

class Unlocked {
 public:
  Unlocked() {
    Inside().fetch_add(1);
    state_ = PyEval_SaveThread();
  }
  ~Unlocked() {
    while (Finalizing()) pause();
    PyEval_RestoreThread(state_);
    Inside().fetch_sub(1);
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

  static int ThreadsInside() { return Inside().load(); }

 private:
  static std::atomic<int>& Inside() {
    static std::atomic<int> inside{0};
    return inside;
  }
  static bool Finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing() != 0;
#else
    return _Py_IsFinalizing() != 0;
#endif
  }

  PyThreadState* state_;
};

// Held for a few lines that call nothing of Python's: releasing an object may run any code, and a
// thread that waits here cannot be stopped by Python's garbage collector.
#ifdef Py_GIL_DISABLED
using StateMutex = std::mutex;
#else
struct StateMutex {
  void lock() {}
  void unlock() {}
};
#endif
using StateLock = std::lock_guard<StateMutex>;

// What `call` returns, for a call that others need not wait for.
template <typename Call>
auto WithoutLock(const Call& call) {
  const Unlocked unlocked;
  return call();
}

}  // namespace hvdlite::bindings
