// MemoryPool: the source of hvdlite's stream-ordered device memory.
//
// This is not the device's own pool. When memory is scarce, that pool makes a stream wait for
// another stream that has freed some. One of these streams may wait for a process set's NCCL, and
// the other for another set's. If another rank orders the two the other way round, each waits for
// ever.
//
// Thread-safety: any thread. Lifetime: not longer than the device's context is retained; blocks may
// outlive the pool. A forked child leaves the pool alone, because CUDA does not survive fork().
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
  // `*pool` is null if the device has no stream-ordered memory.
  static Status Make(std::shared_ptr<const Driver> driver, DeviceNumber device,
                     std::shared_ptr<const MemoryPool>* pool);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // Returns the driver's code. The block is usable from this point of the stream on.
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
