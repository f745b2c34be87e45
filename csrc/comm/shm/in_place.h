// Allreduce in place of tensors that lie in memory which all members share (pool/segment.h): one
// pass, in which each member reads its share of everyone's tensors and writes the result into all
// of them.
//
//   ask    which tensors do all members share? (peer_addresses.h)
//   pass   such a tensor: my share of it, in pieces of some 256 KiB
//   rest   the other tensors, as a batch of their own, by a way that copies
//   end    when all members have done their pass
//
// The sums are those of the shares algorithm, bit for bit. Cost: 2 hand-overs; each tensor is read
// and written once, by all members together.
#pragma once

#include <functional>
#include <memory>

#include "comm/communicator.h"
#include "comm/shm/peer_addresses.h"
#include "comm/shm/region.h"

namespace hvdlite::comm::shm {

// Where the share of each member begins, of a tensor of so many bytes; that of `members` is its
// end. Whole cache lines, as equal shares as they come.
size_t ShareBegin(size_t bytes, int members, int member);

// Starts what carries the tensors that are not shared.
using StartRest = std::function<std::unique_ptr<Work>(const Batch& rest)>;

// `heard` is told whether there is a tensor that all members share.
std::unique_ptr<Work> StartInPlace(Region* region, const SharedTensors& shared, const Batch& batch,
                                   StartRest start_rest, std::function<void(bool any)> heard);

}  // namespace hvdlite::comm::shm
