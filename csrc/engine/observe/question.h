// Question: asks where the program is. The engine asks; a thread that may run Python answers.
//
// The engine never takes the GIL, so it cannot look at a Python stack. A thread of the binding
// waits here instead. Thread-safety: any thread.
#pragma once

#include <string>
#include <utility>

#include "base/mutex.h"

namespace hvdlite::engine {

class Question {
 public:
  enum class Asked : uint8_t { kNo, kYes, kClosed };

  void Ask() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    asked_ = true;
    changed_.NotifyAll();
  }
  // For the answering thread. kClosed: there will be no more questions.
  Asked Wait(Nanos span) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (!asked_ && !closed_) changed_.WaitFor(mutex_, span);
    if (closed_) return Asked::kClosed;
    return std::exchange(asked_, false) ? Asked::kYes : Asked::kNo;
  }
  void Answer(std::string text) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    answer_ = std::move(text);
  }
  // The answer, or an empty text while there is none.
  std::string TakeAnswer() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return std::exchange(answer_, {});
  }
  void Close() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    closed_ = true;
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool asked_ GUARDED_BY(mutex_) = false;
  bool closed_ GUARDED_BY(mutex_) = false;
  std::string answer_ GUARDED_BY(mutex_);
};

}  // namespace hvdlite::engine
