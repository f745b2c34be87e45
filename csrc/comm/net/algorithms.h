// The algorithms of the net communicator: each file makes one Work of a batch and the links.
//
// All of them have these properties. Nothing blocks. Any number of members works, including one,
// and any number of pieces, including empty ones. Each link carries exactly the bytes that its two
// ends derive from the batch, so operations follow one another without a barrier. Results are
// bit-identical on all members, whatever the timing and whatever else is in the batch: sums are
// formed in the order of members and rounded once. `wire` and `batch` outlive the work.
#pragma once

#include <functional>
#include <memory>

#include "comm/batch.h"
#include "comm/communicator.h"
#include "comm/net/wire.h"

namespace hvdlite::comm::net {

// direct.cc
std::unique_ptr<Work> OneShotAllreduce(Wire* wire, const Batch& batch);
std::unique_ptr<Work> DirectAllreduce(Wire* wire, const Batch& batch);
std::unique_ptr<Work> DirectReducescatter(Wire* wire, const Batch& batch);
// gather.cc
std::unique_ptr<Work> GatherAllreduce(Wire* wire, const Batch& batch);
// ring.cc
std::unique_ptr<Work> RingAllgather(Wire* wire, const Batch& batch);
// adasum.cc
std::unique_ptr<Work> AdasumAllreduce(Wire* wire, const Batch& batch);
// tree.cc
std::unique_ptr<Work> TreeBroadcast(Wire* wire, const Batch& batch);
std::unique_ptr<Work> ChainBroadcast(Wire* wire, const Batch& batch);
// pairwise.cc
std::unique_ptr<Work> PairwiseAllgather(Wire* wire, const Batch& batch);
std::unique_ptr<Work> PairwiseAlltoall(Wire* wire, const Batch& batch);
// Calls `count` for each exchange that is added.
std::unique_ptr<Exchanges> PairwiseExchanges(Wire* wire, std::function<void(OpKind)> count);
// barrier.cc
std::unique_ptr<Work> DisseminationBarrier(Wire* wire);

}  // namespace hvdlite::comm::net
