// How long to look busy before going to sleep. DECIDES; pure but for reading the clock.
//
// Waking a sleeper on another core costs 20-40 us, a hand-over to a spinning one 0.1 us, a yield on the same core 1-2 us.
// So: with a processor per rank spin first; with more ranks than processors give way at once, because the peer that is
// waited for may need this very processor; and sleep soon in either case, because yield hands a stranger a whole slice.
#pragma once

#include <sched.h>

#include <cstdint>

#include "base/clock.h"

namespace hvdlite::engine {

class Backoff {
 public:
  Backoff(bool oversubscribed, Nanos spin)
      : spin_(oversubscribed ? 0 : spin), yield_(oversubscribed ? 200 * kMicrosecond : spin / 2),
        free_pauses_(oversubscribed ? 4 : 64) {}

  // There was progress: start over.
  void Reset() { pauses_ = 0; }

  // True while it is too early to sleep; then it has paused or yielded once.
  bool Pause() {
    if (++pauses_ <= free_pauses_) {
      Relax();
      return true;
    }
    const Nanos now = MonotonicNow();
    if (pauses_ == free_pauses_ + 1) since_ = now;
    const Nanos waited = now - since_;
    if (waited < spin_) {
      Relax();
      return true;
    }
    if (waited < spin_ + yield_) {
      sched_yield();
      return true;
    }
    return false;
  }

 private:
  static void Relax() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  const Nanos spin_;
  const Nanos yield_;
  const uint32_t free_pauses_;
  uint32_t pauses_ = 0;
  Nanos since_ = 0;
};

}  // namespace hvdlite::engine
