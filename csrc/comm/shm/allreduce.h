// Allreduce in shared memory. Two algorithms, both one fixed order of summation (member 0, 1, 2,
// ...), both bit-identical on all members and to each other:
//
//   exchange   each member copies its tensor in and reduces everything; 1 hand-over, n * bytes read
//   shares     each member copies in what others will reduce, reduces its share of each chunk and
//              copies the others' shares out; 2 hand-overs, ~2 * bytes read
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "comm/shm/region.h"

namespace hvdlite::comm::shm {

// Everything must fit into one slot.
std::unique_ptr<Work> StartExchange(Region* region, const Batch& batch);
std::unique_ptr<Work> StartShares(Region* region, const Batch& batch);

}  // namespace hvdlite::comm::shm
