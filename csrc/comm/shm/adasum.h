// Adasum in shared memory: a binary tree of pairwise combinations, per tensor.
//
//   level 1: (0,1) (2,3)    level 2: (01,23) ...    partners hold the same vector after each level
//
// Each level streams the vectors twice: once for the dot products, once for the combination. Both
// partners compute the same numbers from the same bytes in the same order (the lower member is
// always `a`), so nothing is exchanged and the results of all members are bit-identical. If n is no
// power of two, the members beyond the largest power p first combine with member i - p and fetch
// the result from it at the end. Cost: 2 * log2(n) passes over the data.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "comm/shm/region.h"

namespace hvdlite::comm::shm {

std::unique_ptr<Work> StartAdasum(Region* region, const Batch& batch);

}  // namespace hvdlite::comm::shm
