// Life: how this rank's part of the job ends. DECIDES.
//
//   runs ── Leave(): Shutdown was called here ── MustAnnounce(): the root is told
//     ├──── Agree(): all ranks end; what is decided still happens ── End()
//     └──── End(): a rank has failed
//
// Thread-safety: ended(), leaving(), Leave(), end() and failure() from any thread; the rest for the
// holder of the turn.
#pragma once

#include <atomic>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"

namespace hvdlite::engine {

class Life {
 public:
  bool ended() const { return ended_.load(std::memory_order_relaxed); }
  // OK, or why nothing can be submitted any more.
  Status end() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return end_;
  }
  // The same, but OK after an end in good order.
  Status failure() const {
    const Status reason = end();
    return reason.code() == StatusCode::kShutDown ? Status::Ok() : reason;
  }
  // Of several reasons the first stays.
  void End(const Status& reason) EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      if (end_.ok()) end_ = reason;
    }
    ended_ = true;
  }

  // This rank wants to leave.
  void Leave() { leaving_.store(true, std::memory_order_seq_cst); }
  // Whether this rank has to tell the root now, once, that it leaves. What it has announced in the
  // world is the root's business; in other sets only this rank knows: `all_done` says whether that
  // has happened. It is waited for no longer than kLeaveGrace.
  template <typename AllDone>
  bool MustAnnounce(Nanos now, AllDone all_done) {
    if (announced_ || !leaving_.load(std::memory_order_acquire)) return false;
    if (leave_by_ == 0) leave_by_ = now + kLeaveGrace;
    announced_ = now > leave_by_ || all_done();
    return announced_;
  }

  // All ranks have agreed to end: a link that breaks from now on is a rank that leaves.
  void Agree(Status reason) { agreed_ = std::move(reason); }
  bool agreed() const { return !agreed_.ok(); }
  const Status& reason() const { return agreed_; }
  // What is decided still happens; if a peer dies just then, it moves no more, and this bounds the
  // wait.
  bool GraceIsOver(Nanos now) {
    if (grace_until_ == 0) grace_until_ = now + kClosingGrace;
    return now > grace_until_;
  }
  void Moved() { grace_until_ = 0; }

  static constexpr Nanos kLeaveGrace = 2 * kSecond;
  static constexpr Nanos kClosingGrace = 2 * kSecond;

 private:
  mutable Mutex mutex_;
  Status end_ GUARDED_BY(mutex_);
  std::atomic<bool> ended_{false};
  std::atomic<bool> leaving_{false};
  bool announced_ = false;
  Nanos leave_by_ = 0;
  Status agreed_;
  Nanos grace_until_ = 0;
};

}  // namespace hvdlite::engine
