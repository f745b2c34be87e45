// Handle: the caller's side of one submitted operation: whether it is done, how it ended, and its
// result.
//
// The engine writes it until Complete(); it is constant afterwards, and done() makes everything
// else visible. The caller and the engine share it, so that either may end first.
#pragma once

#include <atomic>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/tensor.h"
#include "engine/complete/completion.h"
#include "engine/complete/device_memory.h"

namespace hvdlite::engine {

class Handle {
 public:
  explicit Handle(Completion completion = {}, bool patient = false)
      : completion_(std::move(completion)), patient_(patient) {}

  bool done() const { return done_.load(std::memory_order_acquire); }

  // Call everything below only after done().
  const Status& status() const { return status_; }
  // The result of operations whose shape the caller could not know (allgather, alltoall,
  // reducescatter). Points into storage that this handle owns until TakeStorage.
  TensorView output;
  std::vector<int64_t> received_splits;  // Alltoall: rows from each member
  int64_t number = -1;                   // Join: the last rank. AddProcessSet: the id.
  // GPU: the batch, which is enqueued after done(); null: no work on the device
  PendingBatchPtr pending;

  using Storage = std::unique_ptr<void, decltype(&free)>;
  // Allocates memory for `output`, whose dtype and shape are set; null if there is none. An empty
  // tensor has an address, too.
  void* Allocate() {
    if (completion_.allocate) {
      static char nothing;
      void* const lent = completion_.allocate(output);
      return lent == nullptr && output.bytes() == 0 ? &nothing : lent;
    }
    storage_.reset(aligned_alloc(64, (output.bytes() + 64) / 64 * 64));  // a cache line's alignment
    return storage_.get();
  }
  // The same on a GPU.
  Status AllocateOn(std::shared_ptr<device::Gpu> gpu) {
    HVDLITE_RETURN_IF_ERROR(DeviceMemory::Allocate(std::move(gpu), output.bytes(), &memory_));
    output.data = memory_->data();
    return Status::Ok();
  }
  DeviceMemory* memory() const { return memory_.get(); }
  std::unique_ptr<DeviceMemory> TakeMemory() { return std::move(memory_); }
  // Call before Complete().
  void Enqueued(const PendingBatchPtr& with) {
    pending = with;
    if (memory_ != nullptr) memory_->pending = with;
  }
  Storage TakeStorage() { return std::exchange(storage_, Storage(nullptr, &free)); }

  void Complete(Status status) {
    status_ = std::move(status);
    done_.store(true, std::memory_order_release);
  }
  // Whether a completion callback is set; calls it.
  bool wants_telling() const { return static_cast<bool>(completion_.done); }
  void Tell() const { completion_.done(*this); }
  // Whether the background thread may leave the operation to the thread that will wait for it.
  bool patient() const { return patient_; }

 private:
  const Completion completion_;
  const bool patient_;
  std::atomic<bool> done_{false};
  Status status_;
  Storage storage_{nullptr, &free};
  std::unique_ptr<DeviceMemory> memory_;
};

using HandlePtr = std::shared_ptr<Handle>;

}  // namespace hvdlite::engine
