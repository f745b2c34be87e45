// The steps of an allreduce inside a host on tensors that all its members share
// (shm/peer_addresses.h): no copy in or out.
//
//   StartReduce   reads my part of everyone's tensors, and writes its sum where told
//   StartSpread   writes my part of the result into everyone's tensors
//
// Only I touch my part of a tensor between the two, so nothing is handed over there. The sums are
// those of Reducescatter (shm/move.h), bit for bit.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/shm/peer_addresses.h"

namespace hvdlite::comm::hierarchical {

// My part of a shared tensor.
struct Part {
  size_t piece = 0;   // of the batch
  int64_t begin = 0;  // elements
  int64_t count = 0;
  void* sum = nullptr;           // inside the host; may be the tensor itself
  const void* result = nullptr;  // likewise
};

struct InPlace {
  shm::PeerAddresses* addresses = nullptr;
  kernels::ReduceSpec reduce;
  bool to_float = false;  // sums of 16-bit floats are float32
  std::vector<Part> parts;
};

// Borrow `in_place`.
std::unique_ptr<Work> StartReduce(const InPlace& in_place);
// Releases the tensors, and is done when all members have.
std::unique_ptr<Work> StartSpread(const InPlace& in_place);

}  // namespace hvdlite::comm::hierarchical
