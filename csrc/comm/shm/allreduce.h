// Allreduce in shared memory. There are two algorithms. Both sum in one fixed order (member 0, 1,
// 2, ...), so all members get the same bits, whichever of the two runs:
//
//   exchange   each member copies its tensor in and reduces everything; 1 hand-over a chunk,
//              n * bytes read
//   shares     each member copies in what others will reduce, reduces its share of each chunk and
//              copies the others' shares out; 2 hand-overs a chunk, ~2 * bytes read
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "comm/shm/region.h"

namespace hvdlite::comm::shm {

std::unique_ptr<Work> StartExchange(Region* region, const Batch& batch);
std::unique_ptr<Work> StartShares(Region* region, const Batch& batch);

}  // namespace hvdlite::comm::shm
