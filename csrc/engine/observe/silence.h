// Silences: how long the watched ranks have given no sign of life. DECIDES; pure.
//
// Time counts only while this rank itself was alive, so a machine that was suspended as a whole
// does not accuse itself.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "base/clock.h"

namespace hvdlite::engine {

class Silences {
 public:
  // `longest_step`: the most time that counts against the others, however long this rank has not
  // looked.
  explicit Silences(Nanos longest_step) : longest_step_(longest_step) {}

  // Call before asking about any rank. The first call sets the time from which silence counts.
  void Look(Nanos now) {
    passed_ = std::min(now - last_look_, longest_step_);
    last_look_ = now;
  }

  // `sign` changes with each sign of life of that rank, and is not 0. `counts`: the rank could have
  // been heard.
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
