// MemoryPool: where hvdlite's device memory in the order of a stream comes from.
//
// Not the device's own pool: where memory is scarce that one makes a stream wait for another, which
// has freed some. Behind the one may be a process set's NCCL, and behind the other another set's:
// on a rank that orders them the other way round each waits for ever.
//
// Thread-safety: any thread. Lifetime: not longer than the device's context is retained; blocks may
// outlive it. A forked child leaves it alone: CUDA does not survive fork().
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "base/status.h"
#include "device/driver.h"

namespace hvdlite::device {

class MemoryPool {
 public:
  // Null: the device has no memory in the order of a stream.
  static Status Make(std::shared_ptr<const Driver> driver, DeviceNumber device,
                     std::shared_ptr<const MemoryPool>* pool);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // What the driver returns. The block is there from the stream's turn on.
  int Allocate(Address* address, size_t bytes, Stream stream) const {
    return driver_->MemAllocFromPoolAsync(address, bytes, raw_, stream);
  }

 private:
  explicit MemoryPool(std::shared_ptr<const Driver> driver)
      : driver_(std::move(driver)), process_(getpid()) {}

  const std::shared_ptr<const Driver> driver_;
  const pid_t process_;
  RawPool raw_ = nullptr;
};

}  // namespace hvdlite::device
