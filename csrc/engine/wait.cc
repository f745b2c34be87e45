// Who turns and who sleeps. Every wait of the engine is in this file.
//
//   a user thread in Wait    takes the turn and drives; if another user thread has it, sleeps on a
//                            condition variable
//   the background thread    drives while operations are outstanding and no user thread waits; else
//                            sleeps at its gate. Leaves patient operations to the thread that will
//                            wait for them, until the program has been silent for kTickEvery
//   a driver that finds      spins or yields for a moment (Backoff), then sleeps on this rank's
//   nothing to do            doorbell, which peers ring, or on the links between hosts
//
// Every sleep ends after kTickEvery at the latest, to beat the heart and to look for the dead.
//
// Why no wake-up is lost. Each pair below is Dekker's: both sides store, then load, all
// sequentially consistent, so at least one sees the other.
//   submission / driver asleep     inbox, then sleepers   |  sleepers, inbox (IdleInTurn's Cycle)
//   submission / last waiter going urgent, waiters        |  waiters - 1, urgent: one wakes it
//   submission / background        gate + 1, gate_closed  |  gate_closed, gate (the futex compares)
//   TakeTurn / driver asleep       turn_wanted, sleepers  |  sleepers, turn_wanted
//   end / background asleep        stopping, sleepers     |  sleepers, stopping
//   peer's news                    see transport/shm/doorbells.h
// A thread that finds the turn taken sleeps a millisecond at most, so a missed notification there
// costs no more than that.
//
// What can end each wait: its result; its deadline or slice; a signal (sleeps return early); the
// failure or the end of the job (Finish completes every handle); a dead or frozen peer (Tick). Two
// waits are not bounded by their caller: TakeTurn waits for one Cycle of the driver (chunks of
// work; longer only while a process set is being connected), and a thread that waits for a peer
// that is merely late waits as long as it is late: that is what the caller asked for.
//
// No thread holds the turn and takes it again: Cycle and what it calls never call TakeTurn, and no
// user code runs under it: a driver gives way as soon as a callback is due
// (UnlockAndTell). All other locks (inbox, sets, end, waiters, observers) are leaves, held for a
// few instructions.
#include <algorithm>
#include <utility>

#include "base/thread.h"
#include "engine/engine.h"

namespace hvdlite::engine {

bool Engine::Wait(const Handle& handle, Nanos slice) {
  if (handle.done()) return true;
  const Nanos now = MonotonicNow();
  const Nanos until = slice < kForever - now ? now + slice : kForever;
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  jitter_();
  bool done = false;
  Backoff backoff(patience_.get());
  while (!(done = handle.done())) {
    if (turn_wanted_.load(std::memory_order_seq_cst) == 0 && turn_.TryLock()) {
      const Driven driven = Drive(handle, until);
      UnlockAndTell();
      NotifyWaiters();
      if (driven == Driven::kGaveWay) continue;
      done = handle.done();
      break;
    }
    // Another thread turns: the background thread gives way within one step, another waiter when
    // its result is there.
    if (backoff.Pause()) continue;
    if (MonotonicNow() >= until) break;
    MutexLock lock(waiters_mutex_);
    sleeping_waiters_.fetch_add(1, std::memory_order_seq_cst);
    if (!handle.done()) waiters_cv_.WaitFor(waiters_mutex_, kMillisecond);
    sleeping_waiters_.fetch_sub(1, std::memory_order_seq_cst);
  }
  jitter_();
  // The last to leave hands what is still outstanding to the background thread.
  if (waiters_.fetch_sub(1, std::memory_order_seq_cst) == 1 &&
      urgent_.load(std::memory_order_seq_cst) > 0) {
    WakeBackground();
  }
  return done;
}

// Turns until the handle is done, `until` has passed, or a signal has come (kOver), or another
// thread needs the turn more.
Engine::Driven Engine::Drive(const Handle& handle, Nanos until) {
  Backoff backoff(patience_.get());
  for (uint32_t turns = 0;; ++turns) {
    if (Cycle()) backoff.Reset();
    if (handle.done()) return Driven::kOver;
    if (turn_wanted_.load(std::memory_order_seq_cst) > 0 || !to_tell_.empty())
      return Driven::kGaveWay;
    if (backoff.Pause()) {
      if ((turns & 1023) == 1023 && MonotonicNow() >= until) return Driven::kOver;
      continue;
    }
    const Nanos now = MonotonicNow();
    if (now >= until || !IdleInTurn(std::min(until - now, kTickEvery))) return Driven::kOver;
    backoff.Reset();
  }
}

// The background thread has gone to sleep at its gate if it found the turn taken.
void Engine::ReturnTurn() {
  UnlockAndTell();
  if (waiters_.load(std::memory_order_seq_cst) == 0 && urgent_.load(std::memory_order_seq_cst) > 0)
    WakeBackground();
}

// A callback may call any function of the engine that does not wait, so no thread may hold the turn
// meanwhile.
void Engine::UnlockAndTell() {
  const std::vector<HandlePtr> ended = std::exchange(to_tell_, {});
  turn_.Unlock();
  for (const HandlePtr& handle : ended) handle->Tell();
}

void Engine::TakeTurn() {
  turn_wanted_.fetch_add(1, std::memory_order_seq_cst);
  jitter_();
  world_->bells().RingSelf();
  turn_.Lock();
  turn_wanted_.fetch_sub(1, std::memory_order_seq_cst);
}

void Engine::CollectPollFds(std::vector<pollfd>* fds) {
  if (!world_->multi_host()) return;
  for (const auto& set : active_) {
    set->agreement->AddPollFds(fds);
    if (set->running != nullptr && set->running->work != nullptr)
      set->running->communicator->AddPollFds(fds);
  }
}

// Where a peer's news rings no bell, a waiting thread looks again after an eighth of the time that
// it has waited: it sleeps most of a long wait, and adds little to it.
Nanos Engine::LongestNap(Nanos now) {
  constexpr Nanos kShortest = 20 * kMicrosecond;
  constexpr Nanos kLongest = 2 * kMillisecond;
  Nanos nap = kTickEvery;
  for (const auto& set : active_) {
    Running* const running = set->running.get();
    if (running == nullptr || running->work == nullptr || !running->communicator->must_be_asked())
      continue;
    if (running->waits_since == 0) running->waits_since = now;
    nap = std::min(nap, std::clamp((now - running->waits_since) / 8, kShortest, kLongest));
  }
  return nap;
}

// Sleeps on the doorbell unless there is news. False if a signal ended it. Other user threads that
// come now find the turn taken; their submissions ring the bell.
bool Engine::IdleInTurn(Nanos span) {
  transport::Doorbells& bells = world_->bells();
  const uint32_t ticket = bells.BeginSleep();
  // Peers that post from here on see a sleeper and ring; what they posted before, this turn sees.
  jitter_();
  bool interrupted = false;
  if (!Cycle() && !ended_ && turn_wanted_.load(std::memory_order_seq_cst) == 0) {
    std::vector<pollfd> fds;
    CollectPollFds(&fds);
    jitter_();
    span = std::min(span, LongestNap(MonotonicNow()));
    interrupted = bells.Sleep(ticket, &fds, span) == FutexResult::kInterrupted;
  }
  bells.EndSleep();
  return !interrupted;
}

void Engine::NotifyWaiters() {
  if (sleeping_waiters_.load(std::memory_order_seq_cst) == 0) return;
  MutexLock lock(waiters_mutex_);
  waiters_cv_.NotifyAll();
}

// Whose business is the new submission? If a user thread drives (it may be asleep), ring; else the
// background thread's, unless the caller is about to drive itself.
void Engine::Submitted(bool will_wait, bool will_be_told) {
  jitter_();
  last_submission_.store(MonotonicNow(), std::memory_order_relaxed);
  if (last_is_told_.load(std::memory_order_relaxed) != will_be_told)
    last_is_told_.store(will_be_told);
  if (waiters_.load(std::memory_order_seq_cst) > 0) {
    world_->bells().RingSelf();
  } else if (!will_wait) {
    WakeBackground();
  }
}

// Patient operations are left to the thread that waits for them. A program that neither waits nor
// submits for a while does something else, and its peers must not pay for that.
bool Engine::HasUrgent(Nanos now) const {
  if (urgent_.load(std::memory_order_seq_cst) > 0) return true;
  return outstanding_.load(std::memory_order_seq_cst) > 0 &&
         now - last_submission_.load(std::memory_order_relaxed) >= kTickEvery;
}

void Engine::WakeBackground() {
  gate_.fetch_add(1, std::memory_order_seq_cst);
  if (!gate_closed_.load(std::memory_order_seq_cst)) return;
  background_wakes_.fetch_add(1, std::memory_order_relaxed);
  FutexWake(&gate_);
}

// A program that waits says by it that it has submitted everything. A graph never does: there a
// pause says so.
Nanos Engine::GatheredBy(Nanos now) const {
  constexpr Nanos kPause = 100 * kMicrosecond;
  const Nanos last = last_submission_.load(std::memory_order_relaxed);
  const bool by_pause = last_is_told_.load(std::memory_order_relaxed) && now < last + window_;
  return by_pause ? std::min(last + kPause, now + window_) : now + window_;
}

void Engine::LetGather() {
  Nanos now = MonotonicNow();
  const Nanos last_call = now + std::min(window_, kTickEvery);
  while (!stopping_) {
    const uint32_t ticket = gate_.load(std::memory_order_seq_cst);
    const Nanos until = std::min(GatheredBy(now), last_call);
    if (until <= now || FutexWait(&gate_, ticket, until - now) == FutexResult::kWoken) return;
    now = MonotonicNow();
  }
}

// One turn of the background thread, which sleeps without the turn so that a user thread can have
// it at once.
void Engine::BackgroundTurn(Backoff* backoff) {
  bool transferring = false;
  if (Cycle()) backoff->Reset();
  for (const auto& set : active_) transferring |= set->running != nullptr;
  // Between peers that are moving data a sleep per chunk would cost more than the chunk. Otherwise
  // the time belongs to the framework: sleep.
  if (ended_ || (transferring && backoff->Pause())) {
    UnlockAndTell();
    return;
  }
  transport::Doorbells& bells = world_->bells();
  const uint32_t ticket = bells.BeginSleep();
  const bool news = Cycle();
  std::vector<pollfd> fds;
  CollectPollFds(&fds);
  const Nanos longest_nap = LongestNap(MonotonicNow());
  UnlockAndTell();
  jitter_();
  if (!news && waiters_.load(std::memory_order_seq_cst) == 0 && !stopping_) {
    // Submissions do not ring while no thread waits: a little later they leave together.
    const Nanos now = MonotonicNow();
    bells.Sleep(
        ticket, &fds,
        std::min(longest_nap, std::clamp(GatheredBy(now) - now, kMillisecond / 10, kTickEvery)));
  }
  bells.EndSleep();
  backoff->Reset();
}

void Engine::StartBackground() {
  background_ = std::thread([this] { Background(); });
  // From here, not by itself: when init() returns it has its name and its place.
  NameThread(background_.native_handle(), "hvdlite");
  const rendezvous::Place& place = world_->place();
  int core = -1;
  Status pinned =
      CoreOf(options_.config.thread_affinity, place.local_rank, place.local_size, &core);
  if (core >= 0) pinned = PinThread(background_.native_handle(), core);
  if (!pinned.ok()) log_.Warning(pinned.message());
}

void Engine::Background() {
  Backoff backoff(patience_.get());
  while (!stopping_.load(std::memory_order_seq_cst)) {
    const uint32_t ticket = gate_.load(std::memory_order_seq_cst);
    const bool wanted = HasUrgent(MonotonicNow()) && !ended_;
    const bool mine = waiters_.load(std::memory_order_seq_cst) == 0 &&
                      turn_wanted_.load(std::memory_order_seq_cst) == 0;
    if (wanted && mine && turn_.TryLock()) {
      BackgroundTurn(&backoff);
      NotifyWaiters();
      continue;
    }
    // Nothing to do, or a user thread does it. A thread that submits, or leaves with operations
    // outstanding, opens the gate.
    jitter_();
    gate_closed_.store(true, std::memory_order_seq_cst);
    const FutexResult result = FutexWait(&gate_, ticket, kTickEvery);
    gate_closed_.store(false, std::memory_order_seq_cst);
    if (result == FutexResult::kWoken && window_ > 0 && !stopping_) {
      LetGather();  // the first of a burst of submissions, perhaps: let the others come
    }
    if (MonotonicNow() - last_tick_.load(std::memory_order_relaxed) > kTickEvery &&
        turn_.TryLock()) {
      // Keeps the heart beating, and lets a root, a relay or a rank with nothing outstanding hear
      // what the others say.
      Cycle();
      UnlockAndTell();
      NotifyWaiters();
    }
  }
}

}  // namespace hvdlite::engine
