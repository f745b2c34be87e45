// The algorithms over MPI: each makes one Work of a batch.
//
// All of them have these properties. Nothing blocks. Any number of pieces works, including empty
// ones. A stretch that lies in one piece is sent from and received into its own memory; only
// smaller tensors are copied together. No message has more than two `chunk`s of bytes and no count
// is more than 256, so tensors may be of any size. `batch`, `channel` and `slots` outlive the work.
#pragma once

#include <memory>

#include "comm/batch.h"
#include "comm/mpi/rounds.h"

namespace hvdlite::comm::mpi {

struct Context {
  Channel* channel;
  Slots* slots;
  size_t chunk;  // a multiple of 64
};

// exchange.cc: messages between each two members, summed by our own kernels. They support every
// dtype and reduction, sum in the order of the members and round 16-bit floats once. The bits are
// those of shared memory.
std::unique_ptr<Work> OneShotAllreduce(const Context& context, const Batch& batch);
std::unique_ptr<Work> DirectAllreduce(const Context& context, const Batch& batch);
std::unique_ptr<Work> DirectReducescatter(const Context& context, const Batch& batch);
std::unique_ptr<Work> PairwiseAllgather(const Context& context, const Batch& batch);
std::unique_ptr<Work> PairwiseAlltoall(const Context& context, const Batch& batch);
// collective.cc: MPI's own collectives. The allreduce requires IsNative().
std::unique_ptr<Work> LibraryAllreduce(const Context& context, const Batch& batch);
std::unique_ptr<Work> LibraryBroadcast(const Context& context, const Batch& batch);
std::unique_ptr<Work> LibraryBarrier(const Context& context);

}  // namespace hvdlite::comm::mpi
