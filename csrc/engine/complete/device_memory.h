// DeviceMemory: a result on a GPU that the engine has allocated.
//
// It is freed in the order of the streams that use it: the operation's and, if there is one, the
// last user's. Thread-safety: one thread at a time. A forked child must leak it instead of
// destroying it.
#pragma once

#include <memory>
#include <utility>

#include "engine/complete/pending_batch.h"

namespace hvdlite::engine {

class DeviceMemory {
 public:
  // Allocates on `gpu`'s own stream, which never waits for another rank.
  static Status Allocate(std::shared_ptr<device::Gpu> gpu, size_t bytes,
                         std::unique_ptr<DeviceMemory>* memory) {
    void* data = nullptr;
    HVDLITE_RETURN_IF_ERROR(gpu->Allocate(bytes, &data));
    std::unique_ptr<DeviceMemory> made(new DeviceMemory(std::move(gpu), data));
    // The memory is valid on that stream; the operation runs on another.
    HVDLITE_RETURN_IF_ERROR(made->gpu_->Record(made->gpu_->stream(), &made->there_));
    *memory = std::move(made);
    return Status::Ok();
  }

  ~DeviceMemory() {
    device::EventPtr used;
    const Status recorded = has_user_ ? gpu_->Record(last_user_, &used) : Status::Ok();
    // The stream is being captured: Free orders itself behind the stream's earlier work once the
    // capture is over.
    if (recorded.code() == StatusCode::kUnsupported) {
      gpu_->Free(data_, last_user_);
      return;
    }
    // Any other failure means that the device or the stream is gone, so nothing uses the memory any
    // more.
    if (used != nullptr) (void)used->MakeWait(gpu_->stream());
    if (pending != nullptr) (void)pending->MakeWait(gpu_->stream());
    gpu_->Free(data_, gpu_->stream());
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* data() const { return data_; }
  // The event that must fire before the memory is written.
  const device::EventPtr& there() const { return there_; }
  // Makes the stream wait for the result and remembers it as the last user.
  Status Follow(device::Stream stream) {
    if (pending != nullptr) HVDLITE_RETURN_IF_ERROR(pending->MakeWait(stream));
    UsedBy(stream);
    return Status::Ok();
  }
  // Copies the result on the stream, for callers with an allocator of their own.
  Status CopyTo(void* to, size_t bytes, device::Stream stream) {
    HVDLITE_RETURN_IF_ERROR(Follow(stream));
    return bytes == 0 ? Status::Ok() : gpu_->Copy(to, data_, bytes, stream);
  }
  void UsedBy(device::Stream stream) {
    has_user_ = true;
    last_user_ = stream;
  }

  PendingBatchPtr pending;  // the operation's; null: it enqueued no work

 private:
  DeviceMemory(std::shared_ptr<device::Gpu> gpu, void* data) : gpu_(std::move(gpu)), data_(data) {}

  const std::shared_ptr<device::Gpu> gpu_;
  void* const data_;
  device::EventPtr there_;
  bool has_user_ = false;
  device::Stream last_user_ = nullptr;
};

}  // namespace hvdlite::engine
