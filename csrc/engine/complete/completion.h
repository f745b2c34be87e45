// Completion: what a submitter that cannot wait leaves with its operation, to be told how it ended.
//
// Both functions may be empty. `done` is called exactly once for an operation that was accepted,
// after the turn has been given back, by whichever thread had it: the engine's, or a user thread
// inside Wait, Shutdown or Abort. It may submit; it must not wait, nor end the engine. `allocate`
// is called under the turn, at most once and before `done`: it must call nothing of the engine. An
// engine that is destroyed without Shutdown or Abort calls none of them.
#pragma once

#include <functional>

#include "base/tensor.h"

namespace hvdlite::engine {

class Handle;

struct Completion {
  std::function<void(const Handle& handle)> done;
  // Memory for a result whose shape only the agreement told, as `result` without data says; null if
  // there is none. Empty: the handle allocates and owns it.
  std::function<void*(const TensorView& result)> allocate;
};

}  // namespace hvdlite::engine
