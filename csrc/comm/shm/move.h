// Collectives in shared memory that only move data, and reducescatter, which moves and then adds.
//
// All of them are the pipeline with different addresses. Each member streams what others need
// through its slots, chunk by chunk, and the others copy (or add) their part from there. Cost per
// member: its own bytes once in, and the received bytes once out; steps = the longest member's
// bytes / chunk.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "comm/shm/region.h"

namespace hvdlite::comm::shm {

std::unique_ptr<Work> StartBroadcast(Region* region, const Batch& batch);
std::unique_ptr<Work> StartAllgather(Region* region, const Batch& batch);
std::unique_ptr<Work> StartAlltoall(Region* region, const Batch& batch);
std::unique_ptr<Work> StartReducescatter(Region* region, const Batch& batch);
// For float16 or bfloat16: outputs are float32 and not rounded.
std::unique_ptr<Work> StartReducescatterToFloat(Region* region, const Batch& batch);
std::unique_ptr<Work> StartBarrier(Region* region);

}  // namespace hvdlite::comm::shm
