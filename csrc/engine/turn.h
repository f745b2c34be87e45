// Turn: which thread performs the operations, and which threads sleep. turn.cc proves that no
// wake-up is lost.
//
// The turn belongs to one thread at a time, its holder. A thread that waits for a result takes the
// turn and drives: it calls Worker::Cycle again and again. The background thread drives only while
// no thread waits. The holder sleeps only in Turn.
//
// Thread-safety: public members from any thread, except those that REQUIRE the turn.
#pragma once

#include <poll.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/futex.h"
#include "base/jitter.h"
#include "base/mutex.h"
#include "base/status.h"
#include "engine/complete/handle.h"
#include "engine/idle.h"
#include "engine/spread_cores.h"
#include "transport/shm/doorbells.h"

namespace hvdlite::engine {

// The background thread sleeps here while it has nothing to do.
class Gate {
 public:
  // Take a ticket, look for work, then sleep. Open() in between ends the sleep at once.
  uint32_t Ticket() const { return word_.load(std::memory_order_seq_cst); }
  FutexResult Sleep(uint32_t ticket, Nanos span) {
    closed_.store(true, std::memory_order_seq_cst);
    const FutexResult result = FutexWait(&word_, ticket, span);
    closed_.store(false, std::memory_order_seq_cst);
    return result;
  }
  // A sleep that Open() does not end, but Break() does.
  FutexResult Doze(uint32_t ticket, Nanos span) { return FutexWait(&word_, ticket, span); }
  void Open() {
    word_.fetch_add(1, std::memory_order_seq_cst);
    if (!closed_.load(std::memory_order_seq_cst)) return;
    wakes_.fetch_add(1, std::memory_order_relaxed);
    FutexWake(&word_);
  }
  void Break() {
    word_.fetch_add(1, std::memory_order_seq_cst);
    FutexWake(&word_);
  }
  uint64_t wakes() const { return wakes_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint32_t> word_{0};
  std::atomic<bool> closed_{false};  // the thread sleeps
  std::atomic<uint64_t> wakes_{0};
};

// Threads sleep here while another thread performs their operations.
class Waiting {
 public:
  // Losing a notification costs a millisecond.
  void Sleep(const Handle& handle) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    sleeping_.fetch_add(1, std::memory_order_seq_cst);
    if (!handle.done()) changed_.WaitFor(mutex_, kMillisecond);
    sleeping_.fetch_sub(1, std::memory_order_seq_cst);
  }
  void Notify() EXCLUDES(mutex_) {
    if (sleeping_.load(std::memory_order_seq_cst) == 0) return;
    MutexLock lock(mutex_);
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::atomic<int> sleeping_{0};
};

class CAPABILITY("turn") Turn {
 public:
  // The holder's work. Only the holder calls the members, except ended().
  class Worker {
   public:
    virtual ~Worker() = default;
    // Moves what can move and never blocks. Returns true if anything has moved.
    virtual bool Cycle() = 0;
    // Whether nothing will move any more. Any thread may call it.
    virtual bool ended() const = 0;
    // The transfers in progress. kQuick: a peer may have news within microseconds. kSlow: all wait
    // for links that are so slow that sleeping costs nothing.
    enum class Transfers : uint8_t { kNone, kQuick, kSlow };
    virtual Transfers transfers() const = 0;
    // Called before a sleep. Adds the descriptors that report news in addition to the doorbell.
    // Returns how long to sleep before polling transfers that ring no bell.
    virtual Nanos PrepareSleep(Nanos now, std::vector<pollfd>* fds) = 0;
  };

  struct Options {
    bool oversubscribed = false;     // more ranks on this host than processors
    Nanos spin = 50 * kMicrosecond;  // how long a wait spins before it yields
    bool spread_ranks = true;        // see SpreadCores
    bool leave_to_waiters = false;   // patient operations; set if every processor has a rank to run
    Nanos window = 0;                // how long the background thread gathers submissions
    Nanos tick_every = kTickEvery;   // also the longest sleep
  };
  static constexpr Nanos kTickEvery = 200 * kMillisecond;

  // Borrows both.
  Turn(Worker* worker, const Jitter* jitter) : worker_(*worker), jitter_(*jitter) {}
  ~Turn() { Stop(); }
  // Call before anything else. Borrows `bells`.
  void Open(transport::shm::Doorbells* bells, const Options& options);
  // Starts the background thread, on one core if `core` is not -1.
  Status Start(int core);
  // Ends the background thread.
  void Stop();

  // Takes the turn, even from a thread that waits for something that may never come: the driver
  // gives way.
  void Take() ACQUIRE();
  void Return() RELEASE();
  // Takes the turn if this rank has nothing else to do.
  bool TakeIfIdle() TRY_ACQUIRE(true);
  // Whether no operation of this rank is outstanding and no thread needs the turn.
  bool idle() const {
    return outstanding_.load(std::memory_order_seq_cst) == 0 &&
           wanted_.load(std::memory_order_seq_cst) == 0;
  }
  // Spins, then yields, until `over()`; not until it would be time to sleep. Returns early if this
  // rank gets something else to do.
  template <typename Over>
  void PauseUntil(const Over& over) REQUIRES(this) {
    Backoff backoff(patience_.get());
    while (!over()) {
      if (!idle() || !backoff.Pause()) return;
    }
    backoff.Reset();
  }

  // Whether a thread waits for a result.
  bool waited_for() const { return waiters_.load(std::memory_order_seq_cst) > 0; }
  // Changes how long the background thread gathers submissions.
  void GatherFor(Nanos window) { window_.store(window, std::memory_order_relaxed); }
  // Whether the background thread leaves this kind of operation to the thread that will wait.
  bool leave_to_waiters() const { return options_.leave_to_waiters; }
  // An operation is submitted (call before another thread can see it), or is about to be done.
  void Opened(const Handle& handle) { Count(handle, 1); }
  void Closing(const Handle& handle) { Count(handle, -1); }
  // Call after operations were submitted. Makes sure that a thread performs them. `will_wait`: the
  // caller calls Wait at once.
  void Submitted(bool will_wait, bool will_be_told);
  // The same for an operation that is done already.
  void SubmittedAndDone(Nanos now) { last_submission_.store(now, std::memory_order_relaxed); }
  // The handle is done. Wakes its waiter; its callback is called once the turn is released.
  void Done(HandlePtr handle) REQUIRES(this);
  void NotifyWaiters() { waiting_.Notify(); }

  // Works, or waits, until the handle is done or about `slice` has passed; true when done. A signal
  // ends it early.
  bool Wait(const Handle& handle, Nanos slice);
  // Drives until the worker has ended.
  void DriveToTheEnd(const Deadline& deadline);

  // How long the program has submitted nothing.
  Nanos SinceSubmission(Nanos now) const {
    return now - last_submission_.load(std::memory_order_relaxed);
  }
  bool TickIsDue(Nanos now) const {
    return now - last_tick_.load(std::memory_order_relaxed) > options_.tick_every;
  }
  // For the holder of the turn, if it does not drive.
  void TickIfDue(Nanos now) REQUIRES(this) {
    if (TickIsDue(now)) worker_.Cycle();
  }
  // For a holder that does not drive, but waits for longer than it thought.
  void Work() REQUIRES(this) { worker_.Cycle(); }
  void Ticked(Nanos now) { last_tick_.store(now, std::memory_order_relaxed); }

  uint64_t background_wakes() const { return gate_.wakes(); }
  uint64_t moves() const { return spread_cores_->moves(); }

 private:
  bool TryTake() TRY_ACQUIRE(true);
  // Releases the turn, then calls the callbacks of operations that are done.
  void ReleaseAndTell() RELEASE();
  void Count(const Handle& handle, int change);
  enum class Driven : uint8_t { kOver, kGaveWay };
  Driven Drive(const Handle& handle, Nanos until) REQUIRES(this);
  bool IdleInTurn(Nanos span) REQUIRES(this);
  void Background();
  void BackgroundTurn(Backoff* backoff) RELEASE();
  // Whether the background thread has work for which no thread waits.
  bool HasUrgent(Nanos now) const;
  // The latest time at which pending submissions are sent if no more follow.
  Nanos GatheredBy(Nanos now) const;
  void LetGather();
  Nanos window() const { return window_.load(std::memory_order_relaxed); }

  Worker& worker_;
  const Jitter& jitter_;  // called wherever threads race
  Options options_;
  std::atomic<Nanos> window_{0};  // begins as the option
  transport::shm::Doorbells* bells_ = nullptr;
  std::unique_ptr<SpreadCores> spread_cores_;
  std::unique_ptr<Patience> patience_;

  Mutex mutex_;                                      // held by the holder
  std::vector<HandlePtr> to_tell_ GUARDED_BY(this);  // done, with a callback
  std::atomic<int> wanted_{0};                       // threads inside Take: no other may drive

  std::atomic<int> outstanding_{0};  // submitted and not done
  std::atomic<int> urgent_{0};       // those of them that are not patient
  std::atomic<Nanos> last_submission_{0};
  std::atomic<bool> last_is_told_{false};  // its submitter has a callback and does not wait

  std::atomic<int> waiters_{0};  // threads inside Wait
  Waiting waiting_;              // where threads without the turn sleep
  Gate gate_;                    // where the background thread sleeps
  std::atomic<Nanos> last_tick_{0};
  std::atomic<bool> stopping_{false};
  std::thread background_;
};

}  // namespace hvdlite::engine
