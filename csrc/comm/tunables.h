// Tunables: what autotuning may change in a communicator between two operations.
#pragma once

namespace hvdlite::comm {

// Each multiplies what the configuration says. All members use the same at the same operation. None
// changes a bit of a result.
struct Tunables {
  double byte_cost = 1;  // of a network, beside a message; for the choice of an algorithm
  double small = 1;      // up to which size members of a host exchange tensors whole
  double chunk = 1;      // at most 1: chunks in shared memory
};

}  // namespace hvdlite::comm
