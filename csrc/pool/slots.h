// Slots: makes one library of the process allocate from the pool, by rewriting the entries of its
// tables of functions (relocation slots) for posix_memalign, free and their kin.
//
// No other library is touched. So the library must free itself what it allocates, as torch's
// libc10 does. An entry stays rewritten for good, and so do the library and this one: blocks may be
// freed at any time later. What the pool does not serve goes to the process's C library (or what
// was loaded in its stead, such as jemalloc), as before.
//
// Thread-safety: one thread at a time; other threads may use the library meanwhile.
#pragma once

#include <string>

#include "base/status.h"

namespace hvdlite::pool {

struct Allocator {
  std::string module;    // path of a loaded library that uses the framework
  std::string function;  // a symbol that the allocating library alone defines
  // A symbol: int f(), which returns `outside` unless the calling thread computes gradients.
  std::string gate;
  int outside = -1;
};

// Rewrites the slots of the library that defines allocator.function, and has the pool hand out
// blocks where the gate allows it. kUnsupported says why nothing was rewritten. A second call with
// the same library does nothing.
Status Patch(const Allocator& allocator);

}  // namespace hvdlite::pool
