// Adasum of tensors on GPUs, over NCCL, in the order of the device's stream. comm/net/adasum.cc
// does the same for the host.
//
// Any number of members, and all tensors of a batch at once. Requires kernels/gpu.h on all members.
// The results are near those of the host, but not the same to the last bit, because dot products
// add up in another order.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/nccl/communicator.h"

namespace hvdlite::comm::nccl {

// The choice as a sentence.
std::string WhyAdasum(int members);
std::unique_ptr<Work> AdasumAllreduce(Communicator* communicator, const Batch& batch);

}  // namespace hvdlite::comm::nccl
