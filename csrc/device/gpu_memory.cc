// Gpu's memory: buffers that are kept for the next batch, and results that are freed in the order
// of a stream.
#include <algorithm>

#include "device/gpu.h"

namespace hvdlite::device {
namespace {

void* AsPointer(Address address) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): so CUDA tells addresses
  return reinterpret_cast<void*>(address);
}

std::string Mebibytes(size_t bytes) {
  return bytes < (size_t{1} << 20) ? std::to_string(bytes) + " bytes"
                                   : std::to_string(bytes >> 20) + " MiB";
}

}  // namespace

Gpu::Buffer::~Buffer() {
  const Current current(*gpu_);
  if (!current.status().ok()) return;
  if (kind_ == Kind::kInOrder) {
    gpu_->Free(data_, gpu_->stream());
  } else {
    gpu_->Put(kind_ == Kind::kPinned, data_, bytes_);
  }
}

Status Gpu::Pinned(size_t bytes, std::unique_ptr<Buffer>* buffer) {
  return first().Take(true, bytes, buffer);
}

// Prefers stream-ordered memory. Freeing other memory waits for everything on the device, including
// NCCL on other streams, which may wait for this rank.
Status Gpu::OnDevice(size_t bytes, std::unique_ptr<Buffer>* buffer) {
  if (pool_ == nullptr) return first().Take(false, bytes, buffer);
  void* data = nullptr;
  HVDLITE_RETURN_IF_ERROR(Allocate(bytes, &data));
  buffer->reset(new Buffer(shared_from_this(), Buffer::Kind::kInOrder, data, bytes));
  return Status::Ok();
}

Status Gpu::Take(bool pinned, size_t bytes, std::unique_ptr<Buffer>* buffer) {
  const Current current(*this);
  HVDLITE_RETURN_IF_ERROR(current.status());
  void* data = nullptr;
  {
    const MutexLock lock(mutex_);
    data = (pinned ? idle_pinned_ : idle_device_).Take(bytes);
  }
  if (data == nullptr) {
    const size_t rounded = IdleMemory::ClassOf(bytes);
    int code = AllocateNow(pinned, rounded, &data);
    if (code == kOutOfMemory) {
      FreeIdle(pinned);
      code = AllocateNow(pinned, rounded, &data);
    }
    HVDLITE_RETURN_IF_ERROR(driver_->Check(
        code,
        "allocating " + Mebibytes(rounded) + (pinned ? " of pinned host memory" : " on " + name_)));
  }
  const Buffer::Kind kind = pinned ? Buffer::Kind::kPinned : Buffer::Kind::kKept;
  buffer->reset(new Buffer(shared_from_this(), kind, data, bytes));
  return Status::Ok();
}

void Gpu::Put(bool pinned, void* data, size_t bytes) {
  std::vector<void*> gone;
  {
    const MutexLock lock(mutex_);
    gone = (pinned ? idle_pinned_ : idle_device_).Put(data, bytes);
  }
  FreeNow(pinned, gone);
}

int Gpu::AllocateNow(bool pinned, size_t bytes, void** data) const {
  if (pinned) return driver_->MemHostAlloc(data, bytes, 0);
  Address address = 0;
  const int code = driver_->MemAlloc(&address, bytes);
  *data = AsPointer(address);
  return code;
}

void Gpu::FreeNow(bool pinned, const std::vector<void*>& blocks) const {
  for (void* data : blocks) pinned ? driver_->MemFreeHost(data) : driver_->MemFree(AsAddress(data));
}

void Gpu::FreeIdle(bool pinned) {
  std::vector<void*> blocks;
  {
    const MutexLock lock(mutex_);
    blocks = (pinned ? idle_pinned_ : idle_device_).Clear();
  }
  FreeNow(pinned, blocks);
}

Status Gpu::Allocate(size_t bytes, void** data) {
  *data = nullptr;
  if (bytes == 0) return Status::Ok();
  const Current current(*this);
  HVDLITE_RETURN_IF_ERROR(current.status());
  Address address = 0;
  const auto allocate = [&] {
    return pool_ != nullptr ? pool_->Allocate(&address, bytes, stream_)
                            : driver_->MemAlloc(&address, bytes);
  };
  int code = allocate();
  if (code == kOutOfMemory) {
    first().FreeIdle(/*pinned=*/false);
    code = allocate();
  }
  HVDLITE_RETURN_IF_ERROR(driver_->Check(code, "allocating " + Mebibytes(bytes) + " on " + name_));
  *data = AsPointer(address);
  return Status::Ok();
}

void Gpu::Free(void* data, Stream last_user) {
  if (data == nullptr) return;
  const Current current(*this);
  if (!current.status().ok()) return;
  std::vector<Freed> due = {{data, last_user}};
  {
    const MutexLock lock(mutex_);
    due.insert(due.end(), freed_later_.begin(), freed_later_.end());
    freed_later_.clear();
  }
  // Not under the mutex, because this may wait for the device.
  std::erase_if(due, [this](const Freed& freed) { return FreeInOrder(freed); });
  const MutexLock lock(mutex_);
  freed_later_.insert(freed_later_.end(), due.begin(), due.end());
}

// Returns false if the memory cannot be freed now.
bool Gpu::FreeInOrder(const Freed& freed) const {
  if (pool_ == nullptr) {
    driver_->MemFree(AsAddress(freed.data));  // waits for the device, as cudaFree does
    return true;
  }
  if (!RefuseCapture(freed.last_user).ok()) return false;
  driver_->MemFreeAsync(AsAddress(freed.data), freed.last_user);
  return true;
}

}  // namespace hvdlite::device
