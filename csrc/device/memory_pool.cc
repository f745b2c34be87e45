#include "device/memory_pool.h"

#include <cstdint>
#include <utility>

namespace hvdlite::device {

namespace {

constexpr int kMemoryPoolsSupported = 115;  // CU_DEVICE_ATTRIBUTE_...
// CU_MEMPOOL_ATTR_...
constexpr int kReuseAllowInternalDependencies = 3;
constexpr int kReleaseThreshold = 4;

// Kept for the next result, which would otherwise be mapped anew. The framework has that much less
// memory.
constexpr uint64_t kKeptBytes = uint64_t{64} << 20;

}  // namespace

Status MemoryPool::Make(std::shared_ptr<const Driver> driver, DeviceNumber device,
                        std::shared_ptr<const MemoryPool>* out) {
  const std::shared_ptr<MemoryPool> pool(new MemoryPool(std::move(driver)));
  const Driver& cuda = *pool->driver_;
  int supported = 0;
  HVDLITE_RETURN_IF_ERROR(
      cuda.Check(cuda.DeviceGetAttribute(&supported, kMemoryPoolsSupported, device),
                 "asking for what a GPU can do"));
  *out = nullptr;
  if (supported == 0) return Status::Ok();
  PoolProps props;
  props.device = device;
  HVDLITE_RETURN_IF_ERROR(
      cuda.Check(cuda.MemPoolCreate(&pool->raw_, &props), "making a memory pool"));
  const auto set = [&](int attribute, void* value) {
    return cuda.Check(cuda.MemPoolSetAttribute(pool->raw_, attribute, value),
                      "setting up a memory pool");
  };
  int by_waiting = 0;
  HVDLITE_RETURN_IF_ERROR(set(kReuseAllowInternalDependencies, &by_waiting));
  uint64_t kept = kKeptBytes;
  HVDLITE_RETURN_IF_ERROR(set(kReleaseThreshold, &kept));
  *out = pool;
  return Status::Ok();
}

// The driver destroys the pool when its last block is free.
MemoryPool::~MemoryPool() {
  if (raw_ != nullptr && getpid() == process_) driver_->MemPoolDestroy(raw_);
}

}  // namespace hvdlite::device
