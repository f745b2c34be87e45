// Question: what the engine has to ask and to tell the thread that may run Python.
//
// The engine never takes the GIL, so it cannot look at a Python stack. A thread of the binding
// waits here instead. Thread-safety: any thread.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "engine/observe/whereabouts.h"

namespace hvdlite::engine {

class Question {
 public:
  enum class Kind : uint8_t {
    kNothing,
    kWhere,    // the engine waits for Answer
    kVerdict,  // verdict() has a new one
    kReport,   // a user wants to know what the program does
    kClosed,   // there will be nothing more
  };

  // Python that has not answered for this long is held up: C code has the interpreter lock.
  static constexpr Nanos kPatience = kSecond / 2;

  void Ask(Nanos now) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (unanswered_since_ == 0) unanswered_since_ = now;
    asked_at_ = now;
    asked_ = true;
    changed_.NotifyAll();
  }
  // Tells the verdict on a stall.
  void Tell(std::string verdict) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    verdict_ = std::move(verdict);
    told_ = true;
    changed_.NotifyAll();
  }
  // A user asks. `report_requests` counts how often; only a new number is a new question.
  void AskForReport(uint32_t report_requests) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (std::exchange(report_requests_, report_requests) == report_requests) return;
    report_ = true;
    changed_.NotifyAll();
  }
  // For the answering thread. A question comes before its verdict, and the end comes last.
  Kind Wait(Nanos span) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (!asked_ && !told_ && !report_ && !closed_) changed_.WaitFor(mutex_, span);
    if (std::exchange(asked_, false)) return Kind::kWhere;
    if (std::exchange(told_, false)) return Kind::kVerdict;
    if (std::exchange(report_, false)) return Kind::kReport;
    return closed_ ? Kind::kClosed : Kind::kNothing;
  }
  void Answer(std::string place, bool in_wait) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    answer_ = Whereabouts{std::move(place), in_wait};
    unanswered_since_ = asked_at_ = 0;
  }
  // What is new since the last call: the answer, or that there has been none for kPatience.
  std::optional<Whereabouts> TakeAnswer(Nanos now) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (answer_) return std::exchange(answer_, std::nullopt);
    if (asked_at_ == 0 || now - asked_at_ < kPatience) return std::nullopt;
    asked_at_ = 0;
    Whereabouts silence;
    silence.unanswered = now - unanswered_since_;
    return silence;
  }
  std::string verdict() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return verdict_;
  }
  void Close() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    closed_ = true;
    changed_.NotifyAll();
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  bool asked_ GUARDED_BY(mutex_) = false;
  bool told_ GUARDED_BY(mutex_) = false;
  bool report_ GUARDED_BY(mutex_) = false;
  uint32_t report_requests_ GUARDED_BY(mutex_) = 0;
  bool closed_ GUARDED_BY(mutex_) = false;
  Nanos asked_at_ GUARDED_BY(mutex_) = 0;          // 0: answered, or reported as unanswered
  Nanos unanswered_since_ GUARDED_BY(mutex_) = 0;  // the first question without an answer
  std::optional<Whereabouts> answer_ GUARDED_BY(mutex_);
  std::string verdict_ GUARDED_BY(mutex_);
};

}  // namespace hvdlite::engine
