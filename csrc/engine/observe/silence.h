// Silences: for how long those that this rank listens to have given no sign of life. DECIDES; pure.
//
// Only time during which this rank itself was alive counts, so a machine that was suspended as a
// whole does not accuse itself.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "base/clock.h"

namespace hvdlite::engine {

class Silences {
 public:
  // `longest_step`: however long this rank has not looked, not more than this is held against the
  // others.
  explicit Silences(Nanos longest_step) : longest_step_(longest_step) {}

  // Before asking about any rank; the first time, from when on silence counts.
  void Look(Nanos now) {
    passed_ = std::min(now - last_look_, longest_step_);
    last_look_ = now;
  }

  // `sign` is another one each time that rank has given a sign of life, and not 0. `counts`: it
  // could have been heard.
  Nanos Of(int rank, uint64_t sign, bool counts = true) {
    Silence& silence = silences_[rank];
    silence = sign != silence.sign ? Silence{sign, 0}
                                   : Silence{sign, silence.span + (counts ? passed_ : 0)};
    return silence.span;
  }

 private:
  struct Silence {
    uint64_t sign = 0;
    Nanos span = 0;
  };
  const Nanos longest_step_;
  Nanos last_look_ = 0;
  Nanos passed_ = 0;
  std::map<int, Silence> silences_;
};

}  // namespace hvdlite::engine
