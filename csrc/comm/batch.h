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
#include "base/tensor_codec.h"
#include "device/gpu.h"
#include "kernels/reduce.h"
#include "kernels/select.h"

namespace hvdlite::comm {

// What an encoded allreduce needs of one tensor beside its elements.
struct Coding {
  // This member's error feedback, as many floats as the tensor has elements; null: none.
  float* residual = nullptr;
  uint64_t tensor = 0;  // from the tensor's name: the same on all members
  uint64_t draw = 0;    // where this member's random numbers of this step come from
};

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
  Coding coding = {};  // if the batch has a codec
  // In a sparse batch: elements that each member sends, from 1 to `count`, and the memory of this
  // one; its gradient, values and positions are unused. Null: it sends zeros.
  int64_t taken = 0;
  const kernels::Selection* memory = nullptr;
  // In an encoded or sparse batch: neither encoded nor sparse (compressed/split.h).
  bool whole = false;
};

struct Batch {
  OpKind kind = OpKind::kBarrier;
  DType dtype = DType::kUInt8;
  int root = 0;         // Broadcast: the member that sends
  bool adasum = false;  // Allreduce by Adasum, per piece; `reduce` has only the scale factors then
  kernels::ReduceSpec reduce;  // Allreduce, Reducescatter
  // Allreduce: how tensors travel (compressed/encoded_allreduce.h). The dtype is float32 then, and
  // the reduction a sum.
  CodecSpec codec;
  // Allreduce: members send some elements of some tensors (compressed/sparse_allreduce.h). The
  // dtype is float32 then, the reduction a sum, and there is no codec.
  bool sparse = false;
  std::vector<Piece> pieces;
  // Stands for the operations, and is the same each time they come together; 0: they are not known.
  uint64_t identity = 0;
  // where the pieces are; the same kind on all members, except on a joined member without a GPU
  Device device;
  // On a GPU: the events that must fire before inputs are read and outputs are written.
  std::vector<device::EventPtr> ready;
  // On a GPU: why this member cannot take part (no memory for its result). The members tell one
  // another, and the operation fails on all of them.
  Status obstacle;
};

}  // namespace hvdlite::comm
