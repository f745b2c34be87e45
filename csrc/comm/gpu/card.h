// Card: the GPU of this rank, opened by the first tensor that lies on one.
//
// A process that never sees such a tensor loads and allocates nothing. Thread-safety: any thread.
// Failure: kUnsupported with the reason why there is no CUDA here; kInvalidArgument for a tensor on
// a second device.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/config.h"
#include "base/mutex.h"
#include "comm/nccl/library.h"
#include "device/gpu.h"

namespace hvdlite::comm::gpu {

class Card {
 public:
  // Borrowed.
  explicit Card(const Config& settings) : config(settings) {}

  // Whether CUDA can be used here at all. Touches no device.
  Status Usable() EXCLUDES(mutex_);
  // Opens the GPU that this rank uses from now on. Its stream is for memory that changes owner;
  // nothing there waits for a peer.
  Status Open(int ordinal, std::shared_ptr<device::Gpu>* gpu) EXCLUDES(mutex_);
  // Finds the GPU on which this memory lies, by the ordinal that Open takes. For callers that have
  // only an address.
  Status Find(const void* memory, int* ordinal) EXCLUDES(mutex_);
  // Opens another stream of the same device. Null if no device is open yet.
  Status OpenStream(std::shared_ptr<device::Gpu>* gpu) EXCLUDES(mutex_);

  // The NCCL of this process. kUnsupported says why there is none.
  Status Nccl(std::shared_ptr<const nccl::Library>* library) EXCLUDES(mutex_);

  const Config& config;

 private:
  Status LoadLocked() REQUIRES(mutex_);

  Mutex mutex_;
  bool asked_ GUARDED_BY(mutex_) = false;
  Status why_not_ GUARDED_BY(mutex_);
  std::shared_ptr<const device::Driver> driver_ GUARDED_BY(mutex_);
  std::shared_ptr<device::Gpu> gpu_ GUARDED_BY(mutex_);
  std::shared_ptr<const nccl::Library> nccl_ GUARDED_BY(mutex_);
};

}  // namespace hvdlite::comm::gpu
