// Whereabouts: what one rank says about its program when operations are stalled.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/codec.h"

namespace hvdlite::engine {

struct Whereabouts {
  std::string place;     // "train.py:88 (evaluate)"; empty: Python has not answered
  bool in_wait = false;  // the place is a call of hvdlite
  Nanos idle = 0;        // since the rank submitted its last operation
  Nanos unanswered = 0;  // if `place` is empty: since Python was asked
};

void Encode(const Whereabouts& here, Writer* out);
// Accepts any bytes without harm; returns false for bytes that Encode would not write.
bool Decode(Reader* in, Whereabouts* here);

}  // namespace hvdlite::engine
