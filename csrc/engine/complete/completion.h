// Completion: the functions of a submitter that does not wait; they report how its operation ended.
//
// Both functions may be empty. `done` is called exactly once for an accepted operation, after the
// turn has been released. The thread that had the turn calls it: the engine's thread, or a user
// thread inside Wait, Shutdown or Abort. `done` may submit; it must not wait or end the engine.
// `allocate` is called under the turn, at most once and before `done`. It must not call the engine.
// An engine that is destroyed without Shutdown or Abort calls neither.
#pragma once

#include <functional>

#include "base/tensor.h"

namespace hvdlite::engine {

class Handle;

struct Completion {
  std::function<void(const Handle& handle)> done;
  // Returns memory for a result whose shape only the agreement determines (`result` without data),
  // or null if there is none. If empty, the handle allocates and owns the memory.
  std::function<void*(const TensorView& result)> allocate;
};

}  // namespace hvdlite::engine
