// Allreduce in place of tensors that lie in memory which all members share (pool/segment.h): one
// pass, in which each member reads its share of everyone's tensors and writes the result into all
// of them.
//
//   tell   my slot: where each of my tensors lies in my segment, or that it lies elsewhere; `in`
//   pass   a tensor that all members share: my share of it, in pieces of some 256 KiB; `mid`
//   rest   the other tensors, as a batch of their own, by a way that copies
//   end    when all members have done their pass
//
// All members read the same tables, so they agree on what is the rest. The sums are those of the
// shares algorithm, bit for bit. Cost: 2 hand-overs; each tensor is read and written once, by all
// members together.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/shm/region.h"
#include "pool/peers.h"

namespace hvdlite::comm::shm {

struct SharedTensors {
  const pool::Peers* peers = nullptr;  // borrowed
  std::vector<int> local_ranks;        // of the members

  // Whether a table about so many tensors fits into a slot.
  static bool Fits(size_t tensors, size_t slot_bytes) {
    return tensors * sizeof(int64_t) <= slot_bytes;
  }
};

// Starts what carries the tensors that are not shared.
using StartRest = std::function<std::unique_ptr<Work>(const Batch& rest)>;

// `heard` is told whether there is a tensor that all members share.
std::unique_ptr<Work> StartInPlace(Region* region, const SharedTensors& shared, const Batch& batch,
                                   StartRest start_rest, std::function<void(bool any)> heard);

}  // namespace hvdlite::comm::shm
