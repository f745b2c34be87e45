// How long a thread spins and yields before it sleeps. DECIDES; reads nothing but the clock.
//
// Waking a sleeper on another core costs 20-40 us, a hand-over to a spinning thread 0.1 us, a yield
// on the same core 1-2 us. So with a processor per rank, spin first. With more ranks than
// processors, yield at once, because the awaited peer may need this very processor. Sleep soon in
// either case, because a yield can give an unrelated thread a whole time slice.
//
// Enough processors on the host do not mean a processor for each rank: two ranks may share one.
// Then every wait outlasts its spin and ends with the first yield. A rank moves to another
// processor if it can (spread_cores.h). Otherwise, on a busy machine, Patience notices and yields
// at once until a spin helps again.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "engine/spread_cores.h"

namespace hvdlite::engine {

// What a rank has learned about waiting. Its threads share it. Races on it are harmless: it is only
// a hint.
class Patience {
 public:
  // `spin`: how long a wait spins when there is a processor per rank. Borrows `spread_cores`.
  Patience(bool oversubscribed, Nanos spin, SpreadCores* spread_cores)
      : oversubscribed_(oversubscribed), spin_(spin), spread_cores_(*spread_cores) {}

  // How long the next wait should spin.
  Nanos Spin() {
    if (oversubscribed_) return 0;
    if (crowded_.load(std::memory_order_relaxed) < kCrowdedAfter) return spin_;
    return waits_.fetch_add(1, std::memory_order_relaxed) % kTryAgainEvery == 0 ? spin_ : 0;
  }
  void SpinHelped() {
    if (crowded_.load(std::memory_order_relaxed) != 0) crowded_.store(0, std::memory_order_relaxed);
  }
  void Began() { spread_cores_.Publish(); }
  // Call instead of a yield. Returns true if this thread has a processor of its own now, so that a
  // spin may help.
  bool Moved(Nanos now) {
    if (oversubscribed_ || !spread_cores_.Move(now)) return false;
    crowded_.store(0, std::memory_order_relaxed);
    return true;
  }
  void YieldHelped() {
    const uint32_t crowded = crowded_.load(std::memory_order_relaxed);
    if (crowded < kCrowdedAfter) crowded_.store(crowded + 1, std::memory_order_relaxed);
  }

 private:
  static constexpr uint32_t kCrowdedAfter = 8;  // in a row; a slow peer now and then proves nothing
  static constexpr uint32_t kTryAgainEvery = 64;  // a useless spin costs 50 us: under 1 us per wait
  const bool oversubscribed_;
  const Nanos spin_;
  SpreadCores& spread_cores_;
  std::atomic<uint32_t> crowded_{0};
  std::atomic<uint32_t> waits_{0};
};

// The successive waits of one thread.
class Backoff {
 public:
  explicit Backoff(Patience* patience) : patience_(patience) {}

  // Call after progress: the next wait begins.
  void Reset() {
    if (phase_ == Phase::kSpin) patience_->SpinHelped();
    if (phase_ == Phase::kYield && spin_ > 0) patience_->YieldHelped();
    phase_ = Phase::kFresh;
    pauses_ = 0;
  }

  // Returns true, after one pause or yield, while it is too early to sleep.
  bool Pause() {
    if (++pauses_ <= kFreePauses) {
      Relax();
      return true;
    }
    const Nanos now = MonotonicNow();
    if (phase_ == Phase::kFresh) {
      phase_ = Phase::kSpin;
      since_ = now;
      spin_ = patience_->Spin();
      patience_->Began();
    }
    const Nanos waited = now - since_;
    if (waited < spin_) {
      Relax();
      return true;
    }
    phase_ = Phase::kYield;
    if (waited < spin_ + (spin_ > 0 ? kYieldAfterSpin : kYieldOnly)) {
      if (patience_->Moved(now)) {
        phase_ = Phase::kFresh;
        return true;
      }
      sched_yield();
      return true;
    }
    phase_ = Phase::kFresh;
    return false;
  }

 private:
  enum class Phase : uint8_t { kFresh, kSpin, kYield };

  static constexpr uint32_t kFreePauses = 4;  // before the clock is read
  static constexpr Nanos kYieldAfterSpin = 25 * kMicrosecond;
  static constexpr Nanos kYieldOnly = 200 * kMicrosecond;

  static void Relax() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  Patience* const patience_;
  uint32_t pauses_ = 0;
  Phase phase_ = Phase::kFresh;
  Nanos since_ = 0;
  Nanos spin_ = 0;
};

}  // namespace hvdlite::engine
