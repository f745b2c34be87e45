// Batch: one collective over one or more tensors, as the engine passes it to a communicator.
//
// All members of the process set hold the same batch (same kind, dtype, counts, in the same order);
// only the pointers differ. Members are numbered 0..size-1 within the set. All counts are in
// elements.
#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/ops.h"
#include "base/status.h"
#include "base/tensor.h"
#include "device/gpu.h"
#include "kernels/reduce.h"

namespace hvdlite::comm {

// One tensor of a batch, as this rank sees it. Borrowed memory.
//
// kind           input                       output
// Allreduce      count elements              count elements; may be the input
// Broadcast      count elements, root only   count elements; on the root may be the input or null
// Allgather      counts[me]                  sum of counts, member 0's part first
// Reducescatter  sum of counts               counts[me]
// Alltoall       row `me` of counts, summed  column `me` of counts, summed
// Barrier        -                           -
// A pointer may be null where its element count is 0.
struct Piece {
  const void* input = nullptr;
  void* output = nullptr;
  int64_t count = 0;  // Allreduce, Broadcast
  // Allgather, Reducescatter: per member. Alltoall: [from * size + to].
  std::vector<int64_t> counts;
};

struct Batch {
  OpKind kind = OpKind::kBarrier;
  DType dtype = DType::kUInt8;
  int root = 0;         // Broadcast: the member that sends
  bool adasum = false;  // Allreduce by Adasum, per piece; `reduce` has only the scale factors then
  kernels::ReduceSpec reduce;  // Allreduce, Reducescatter
  std::vector<Piece> pieces;
  // where the pieces are; the same kind on all members, except on a joined member without a GPU
  Device device;
  // On a GPU: the events that must fire before inputs are read and outputs are written.
  std::vector<device::EventPtr> ready;
  // On a GPU: why this member cannot take part (no memory for its result). The members tell one
  // another, and the operation fails on all of them.
  Status obstacle;
};

}  // namespace hvdlite::comm
