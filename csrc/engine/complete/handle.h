// Handle: the caller's side of one submitted operation: is it done, how did it end, what did it yield.
//
// Written by the engine until Complete(), by nobody afterwards; done() makes everything else visible.
// Shared between the caller and the engine, so that neither needs the other to live.
#pragma once

#include <atomic>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"
#include "device/tensor.h"

namespace hvdlite::engine {

class Handle {
 public:
  bool done() const { return done_.load(std::memory_order_acquire); }

  // All below: only after done().
  const Status& status() const { return status_; }
  // The result of operations whose shape the caller could not know (allgather, alltoall, reducescatter). Points into
  // storage that this handle owns until TakeStorage.
  TensorView output;
  std::vector<int64_t> received_splits;  // Alltoall: rows from each member
  int64_t number = -1;                   // Join: who was last. AddProcessSet: the id.

  using Storage = std::unique_ptr<void, decltype(&free)>;
  void* Allocate(size_t bytes) {
    // A cache line's alignment, and never null: an empty tensor still has an address.
    storage_.reset(aligned_alloc(64, (bytes + 64) / 64 * 64));
    return storage_.get();
  }
  Storage TakeStorage() { return std::exchange(storage_, Storage(nullptr, &free)); }

  void Complete(Status status) {
    status_ = std::move(status);
    done_.store(true, std::memory_order_release);
  }

 private:
  std::atomic<bool> done_{false};
  Status status_;
  Storage storage_{nullptr, &free};
};

using HandlePtr = std::shared_ptr<Handle>;

}  // namespace hvdlite::engine
