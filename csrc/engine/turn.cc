// Every wait of the engine is in this file.
//
//   a user thread in Wait    takes the turn and drives; if another user thread has it, sleeps on a
//                            condition variable
//   the background thread    drives while operations are outstanding and no user thread waits; else
//                            sleeps at its gate. Leaves patient operations to the thread that will
//                            wait for them, until the program has been silent for tick_every
//   a driver that finds      spins or yields for a moment (Backoff), then sleeps on this rank's
//   nothing to do            doorbell, which peers ring, or on the links between hosts
//
// Every sleep ends after tick_every at the latest, to send a heartbeat and to look for dead ranks.
//
// Why no wake-up is lost. Each pair below is Dekker's: both sides store, then load, all
// sequentially consistent, so at least one sees the other.
//   submission / driver asleep     inbox, then sleepers   |  sleepers, inbox (IdleInTurn's Cycle)
//   submission / last waiter going urgent, waiters        |  waiters - 1, urgent: one wakes it
//   submission / background        gate + 1, closed       |  closed, gate (the futex compares)
//   Stop / background              stopping, gate + 1     |  gate (the ticket), stopping
//   Take / driver asleep           wanted, sleepers       |  sleepers, wanted
//   end / background asleep        stopping, sleepers     |  sleepers, stopping
//   peer's news                    see transport/shm/doorbells.h
// A thread that finds the turn taken sleeps a millisecond at most, so losing a notification there
// costs no more than that.
//
// Each wait ends with its result; at its deadline or slice; with a signal (sleeps return early);
// with the failure or the end of the job (the worker completes every handle); or with a dead or
// frozen peer (which the worker notices in a tick). Two waits are not bounded by their caller. Take
// waits for one Cycle of the driver (chunks of work; longer only while a process set is being
// connected). A thread that waits for a peer that is merely late waits as long as the peer is late,
// which is what the caller asked for.
//
// No thread takes the turn while it holds it: Cycle and what it calls never call Take. No user code
// runs under the turn: a driver gives way as soon as a callback is due (ReleaseAndTell). All other
// locks (inbox, sets, end, waiters, observers) are leaves, held for a few instructions.
#include "engine/turn.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/thread.h"

namespace hvdlite::engine {

void Turn::Open(transport::shm::Doorbells* bells, const Options& options) {
  bells_ = bells;
  options_ = options;
  GatherFor(options.window);
  spread_cores_ =
      std::make_unique<SpreadCores>(&bells->segment(), bells->local_rank(), options.spread_ranks);
  patience_ = std::make_unique<Patience>(options.oversubscribed, options.spin, spread_cores_.get());
  last_tick_ = last_submission_ = MonotonicNow();
}

bool Turn::Wait(const Handle& handle, Nanos slice) {
  if (handle.done()) return true;
  const Nanos now = MonotonicNow();
  const Nanos until = slice < kForever - now ? now + slice : kForever;
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  jitter_();
  bool done = false;
  Backoff backoff(patience_.get());
  while (!(done = handle.done())) {
    if (wanted_.load(std::memory_order_seq_cst) == 0 && TryTake()) {
      const Driven driven = Drive(handle, until);
      ReleaseAndTell();
      NotifyWaiters();
      if (driven == Driven::kGaveWay) continue;
      done = handle.done();
      break;
    }
    // Another thread has the turn. The background thread gives way within one step, another waiter
    // when its result is there.
    if (backoff.Pause()) continue;
    if (MonotonicNow() >= until) break;
    waiting_.Sleep(handle);
  }
  jitter_();
  // The last waiter leaves outstanding operations to the background thread.
  if (waiters_.fetch_sub(1, std::memory_order_seq_cst) == 1 &&
      urgent_.load(std::memory_order_seq_cst) > 0) {
    gate_.Open();
  }
  return done;
}

// Drives until the handle is done, `until` has passed, or a signal has come (kOver), or another
// thread needs the turn more.
Turn::Driven Turn::Drive(const Handle& handle, Nanos until) {
  Backoff backoff(patience_.get());
  for (uint32_t turns = 0;; ++turns) {
    if (worker_.Cycle()) backoff.Reset();
    if (handle.done()) return Driven::kOver;
    if (wanted_.load(std::memory_order_seq_cst) > 0 || !to_tell_.empty()) return Driven::kGaveWay;
    if (worker_.transfers() != Worker::Transfers::kSlow && backoff.Pause()) {
      if ((turns & 1023) == 1023 && MonotonicNow() >= until) return Driven::kOver;
      continue;
    }
    const Nanos now = MonotonicNow();
    if (now >= until || !IdleInTurn(std::min(until - now, options_.tick_every)))
      return Driven::kOver;
    backoff.Reset();
  }
}

void Turn::DriveToTheEnd(const Deadline& deadline) {
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  bells_->RingSelf();
  Backoff backoff(patience_.get());
  while (!worker_.ended() && !deadline.Passed()) {
    if (wanted_.load(std::memory_order_seq_cst) > 0 || !TryTake()) {
      usleep(100);
      continue;
    }
    if (worker_.Cycle()) backoff.Reset();
    if (!worker_.ended() && to_tell_.empty() && !backoff.Pause()) {
      IdleInTurn(deadline.Left(options_.tick_every));
      backoff.Reset();
    }
    ReleaseAndTell();
  }
  waiters_.fetch_sub(1, std::memory_order_seq_cst);
}

void Turn::Take() NO_THREAD_SAFETY_ANALYSIS {
  wanted_.fetch_add(1, std::memory_order_seq_cst);
  jitter_();
  bells_->RingSelf();
  mutex_.Lock();
  wanted_.fetch_sub(1, std::memory_order_seq_cst);
}

bool Turn::TryTake() NO_THREAD_SAFETY_ANALYSIS {
  return mutex_.TryLock();
}

bool Turn::TakeIfIdle() NO_THREAD_SAFETY_ANALYSIS {
  return idle() && TryTake();
}

// If the background thread found the turn taken, it now sleeps at its gate.
void Turn::Return() {
  ReleaseAndTell();
  if (waiters_.load(std::memory_order_seq_cst) == 0 && urgent_.load(std::memory_order_seq_cst) > 0)
    gate_.Open();
}

// A callback may call any function of the engine that does not wait, so it must not run under the
// turn.
void Turn::ReleaseAndTell() NO_THREAD_SAFETY_ANALYSIS {
  const std::vector<HandlePtr> done = std::exchange(to_tell_, {});
  mutex_.Unlock();
  for (const HandlePtr& handle : done) handle->Tell();
}

void Turn::Count(const Handle& handle, int change) {
  outstanding_.fetch_add(change, std::memory_order_seq_cst);
  if (!handle.patient()) urgent_.fetch_add(change, std::memory_order_seq_cst);
}

void Turn::Done(HandlePtr handle) {
  if (handle->wants_telling()) to_tell_.push_back(std::move(handle));
  NotifyWaiters();
}

// Sleeps on the doorbell unless there is news. Returns false if a signal ended the sleep. Other
// user threads that call now find the turn taken; their submissions ring the bell.
bool Turn::IdleInTurn(Nanos span) {
  transport::shm::Doorbells& bells = *bells_;
  const uint32_t ticket = bells.BeginSleep();
  // Peers that post from here on see a sleeper and ring. This turn sees what they posted before.
  jitter_();
  bool interrupted = false;
  if (!worker_.Cycle() && !worker_.ended() && wanted_.load(std::memory_order_seq_cst) == 0) {
    std::vector<pollfd> fds;
    span = std::min(span, worker_.PrepareSleep(MonotonicNow(), &fds));
    jitter_();
    interrupted = bells.Sleep(ticket, &fds, span) == FutexResult::kInterrupted;
  }
  bells.EndSleep();
  return !interrupted;
}

// Decides which thread takes the new submission. If a user thread drives (it may be asleep), rings
// its bell. Otherwise the background thread takes it, unless the caller is about to drive itself.
void Turn::Submitted(bool will_wait, bool will_be_told) {
  jitter_();
  last_submission_.store(MonotonicNow(), std::memory_order_relaxed);
  if (last_is_told_.load(std::memory_order_relaxed) != will_be_told)
    last_is_told_.store(will_be_told);
  if (waiters_.load(std::memory_order_seq_cst) > 0) {
    bells_->RingSelf();
  } else if (!will_wait) {
    gate_.Open();
  }
}

// Patient operations are left to the thread that waits for them. But a program that neither waits
// nor submits for a while does something else, and its peers must not pay for that.
bool Turn::HasUrgent(Nanos now) const {
  if (urgent_.load(std::memory_order_seq_cst) > 0) return true;
  return outstanding_.load(std::memory_order_seq_cst) > 0 &&
         SinceSubmission(now) >= options_.tick_every;
}

// A program that waits has submitted everything. A graph never waits, so a pause is the sign.
Nanos Turn::GatheredBy(Nanos now) const {
  constexpr Nanos kPause = 100 * kMicrosecond;
  const Nanos last = last_submission_.load(std::memory_order_relaxed);
  const bool by_pause = last_is_told_.load(std::memory_order_relaxed) && now < last + window();
  return by_pause ? std::min(last + kPause, now + window()) : now + window();
}

void Turn::LetGather() {
  Nanos now = MonotonicNow();
  const Nanos last_call = now + std::min(window(), options_.tick_every);
  for (uint32_t ticket = gate_.Ticket(); !stopping_; ticket = gate_.Ticket()) {
    const Nanos until = std::min(GatheredBy(now), last_call);
    if (until <= now || gate_.Doze(ticket, until - now) == FutexResult::kWoken) return;
    now = MonotonicNow();
  }
}

// One turn of the background thread. It sleeps without the turn so that a user thread can take it
// at once.
void Turn::BackgroundTurn(Backoff* backoff) {
  if (worker_.Cycle()) backoff->Reset();
  // While peers move data, a sleep per chunk would cost more than the chunk. Otherwise the
  // processor belongs to the framework, so sleep.
  if (worker_.ended() || (worker_.transfers() == Worker::Transfers::kQuick && backoff->Pause())) {
    ReleaseAndTell();
    return;
  }
  transport::shm::Doorbells& bells = *bells_;
  const uint32_t ticket = bells.BeginSleep();
  const bool news = worker_.Cycle();
  std::vector<pollfd> fds;
  const Nanos longest_nap = worker_.PrepareSleep(MonotonicNow(), &fds);
  ReleaseAndTell();
  jitter_();
  if (!news && waiters_.load(std::memory_order_seq_cst) == 0 && !stopping_) {
    // Submissions do not ring while no thread waits; they are sent together a little later.
    const Nanos now = MonotonicNow();
    bells.Sleep(ticket, &fds,
                std::min(longest_nap, std::clamp(GatheredBy(now) - now, kMillisecond / 10,
                                                 options_.tick_every)));
  }
  bells.EndSleep();
  backoff->Reset();
}

Status Turn::Start(int core) {
  background_ = std::thread([this] { Background(); });
  // Done here and not by the thread, so that the thread has its name and its core when init()
  // returns.
  NameThread(background_.native_handle(), "hvdlite");
  return core < 0 ? Status::Ok() : PinThread(background_.native_handle(), core);
}

void Turn::Stop() {
  if (!background_.joinable()) return;
  stopping_ = true;
  gate_.Break();
  bells_->RingSelf();
  background_.join();
}

void Turn::Background() {
  Backoff backoff(patience_.get());
  for (uint32_t ticket = gate_.Ticket(); !stopping_; ticket = gate_.Ticket()) {
    const bool wanted = HasUrgent(MonotonicNow()) && !worker_.ended();
    const bool mine = waiters_.load(std::memory_order_seq_cst) == 0 &&
                      wanted_.load(std::memory_order_seq_cst) == 0;
    if (wanted && mine && TryTake()) {
      BackgroundTurn(&backoff);
      NotifyWaiters();
      continue;
    }
    // There is nothing to do, or a user thread does it. A thread that submits, or that leaves
    // operations outstanding, opens the gate.
    jitter_();
    const FutexResult result = gate_.Sleep(ticket, options_.tick_every);
    if (result == FutexResult::kWoken && window() > 0 && !stopping_) {
      LetGather();  // perhaps the first of a burst of submissions: gather the others
    }
    if (TickIsDue(MonotonicNow()) && TryTake()) {
      // Sends heartbeats, and lets a root, a relay or a rank with nothing outstanding receive
      // messages.
      worker_.Cycle();
      ReleaseAndTell();
      NotifyWaiters();
    }
  }
}

}  // namespace hvdlite::engine
