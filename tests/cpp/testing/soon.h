// Soon: the deadline of what happens at once unless something hangs.
#pragma once

#include "base/clock.h"

namespace hvdlite {

inline Deadline Soon() {
  return Deadline::AfterSeconds(60);
}

}  // namespace hvdlite
