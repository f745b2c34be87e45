// The algorithms over MPI: each makes one Work out of a batch.
//
// Common to all: nothing blocks; several pieces, empty ones too; a stretch of a tensor that lies in
// one piece travels from and to where it lies, only smaller tensors are copied together; no message
// has more than two `chunk`s of bytes, no count more than 256, so tensors may be of any size.
// `batch`, `channel` and `slots` outlive the work.
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

// exchange.cc: messages between each two members, summed by our own kernels: every dtype and
// reduction, in the order of the members, 16-bit floats rounded once, the same bits as over shared
// memory.
std::unique_ptr<Work> OneShotAllreduce(const Context& context, const Batch& batch);
std::unique_ptr<Work> DirectAllreduce(const Context& context, const Batch& batch);
std::unique_ptr<Work> DirectReducescatter(const Context& context, const Batch& batch);
std::unique_ptr<Work> PairwiseAllgather(const Context& context, const Batch& batch);
std::unique_ptr<Work> PairwiseAlltoall(const Context& context, const Batch& batch);
// collective.cc: MPI's own. The allreduce for what IsNative() says.
std::unique_ptr<Work> LibraryAllreduce(const Context& context, const Batch& batch);
std::unique_ptr<Work> LibraryBroadcast(const Context& context, const Batch& batch);
std::unique_ptr<Work> LibraryBarrier(const Context& context);

}  // namespace hvdlite::comm::mpi
