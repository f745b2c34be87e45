// Adasum of tensors on GPUs, over NCCL: what comm/net/adasum.cc does for the host, in the order of
// the device's stream.
//
// Any number of members, and the tensors of a batch at once. Requires kernels/gpu.h on all members.
// The sums are near those of the host, not the same to the last bit: dot products add up in another
// order.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/nccl/communicator.h"

namespace hvdlite::comm::nccl {

// The sentence for people.
std::string WhyAdasum(int members);
std::unique_ptr<Work> AdasumAllreduce(Communicator* communicator, const Batch& batch);

}  // namespace hvdlite::comm::nccl
