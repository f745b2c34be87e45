// ProbePolicy: about which batches the members of a host ask one another (peer_addresses.h). All
// members see the same batches, so they decide alike.
#pragma once

#include <cstdint>
#include <utility>

#include "comm/shm/peer_addresses.h"
#include "comm/shm/pipeline.h"
#include "comm/shm/probe_backoff.h"

namespace hvdlite::comm::shm {

// Of all tensors, each on cache lines of its own.
inline size_t BytesOf(const Batch& batch) {
  size_t bytes = 0;
  for (const Piece& piece : batch.pieces) {
    bytes += (static_cast<size_t>(piece.count) * SizeOf(batch.dtype) + kLine - 1) / kLine * kLine;
  }
  return bytes;
}

class ProbePolicy {
 public:
  // Nothing is shared.
  ProbePolicy() = default;
  // Batches of more than `small_bytes`, whose table fits into a chunk of the region.
  ProbePolicy(SharedTensors tensors, const Region* region, size_t small_bytes)
      : tensors_(std::move(tensors)), region_(region), small_bytes_(small_bytes) {}

  const SharedTensors& tensors() const { return tensors_; }
  // Whether the batch may have tensors that are shared.
  bool May(const Batch& batch) const {
    return tensors_.peers != nullptr && batch.kind == OpKind::kAllreduce && !batch.adasum &&
           BytesOf(batch) > small_bytes_ &&
           SharedTensors::Fits(batch.pieces.size(), region_->chunk_bytes());
  }
  bool Asks(const Batch& batch) { return May(batch) && backoff_.Asks(ShapeOf(batch)); }
  // What came of it.
  void Learn(const Batch& batch, bool any_shared) { backoff_.Learn(ShapeOf(batch), any_shared); }

 private:
  // Alike for batches of the same operations. Operations that are not known are told apart by their
  // sizes alone.
  static uint64_t ShapeOf(const Batch& batch) {
    uint64_t shape = batch.identity + static_cast<uint64_t>(batch.dtype) + 1;
    for (const Piece& piece : batch.pieces)
      shape = shape * 1099511628211ull + static_cast<uint64_t>(piece.count);
    return shape;
  }

  SharedTensors tensors_;
  const Region* region_ = nullptr;
  size_t small_bytes_ = 0;
  ProbeBackoff backoff_;
};

}  // namespace hvdlite::comm::shm
