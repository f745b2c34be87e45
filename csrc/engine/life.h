// Life: the state of this rank between start and end of the job. DECIDES.
//
//   runs ── Leave(): Shutdown was called here ── MustAnnounce(): the root must be told
//     ├──── Agree(): all ranks end; decided operations still happen ── End()
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
  // OK, or the reason why nothing can be submitted any more.
  Status end() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return end_;
  }
  // The same, but OK after an orderly end.
  Status failure() const {
    const Status reason = end();
    return reason.code() == StatusCode::kShutDown ? Status::Ok() : reason;
  }
  // The first of several reasons stays.
  void End(const Status& reason) EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      if (end_.ok()) end_ = reason;
    }
    ended_ = true;
  }

  // Records that this rank wants to leave.
  void Leave() { leaving_.store(true, std::memory_order_seq_cst); }
  bool leaving() const { return leaving_.load(std::memory_order_acquire); }
  // Whether this rank must tell the root now, once, that it leaves. The root tracks what this rank
  // has announced in the world. Only this rank knows about other sets: `all_done` tells whether
  // their operations have happened. This rank waits for them for kLeaveGrace at most.
  template <typename AllDone>
  bool MustAnnounce(Nanos now, AllDone all_done) {
    if (announced_ || !leaving()) return false;
    if (leave_by_ == 0) leave_by_ = now + kLeaveGrace;
    announced_ = now > leave_by_ || all_done();
    return announced_;
  }

  // All ranks have agreed to end. A link that breaks from now on belongs to a rank that leaves.
  void Agree(Status reason) { agreed_ = std::move(reason); }
  bool agreed() const { return !agreed_.ok(); }
  const Status& reason() const { return agreed_; }
  // Decided operations still happen. If a peer dies just then they cannot finish, and this bounds
  // the wait.
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
