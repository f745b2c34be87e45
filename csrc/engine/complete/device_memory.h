// DeviceMemory: a result on a GPU that the engine has allocated, from the operation to whoever uses it last.
//
// Given back in the order of the streams that use it: of the operation, and of the last user, if there is one.
// Thread-safety: one thread at a time. In a forked child it must be let go of, not destroyed.
#pragma once

#include <memory>
#include <utility>

#include "engine/complete/flight.h"

namespace hvdlite::engine {

class DeviceMemory {
 public:
  // `gpu`'s stream is where memory changes hands: nothing there waits for anybody.
  static Status Allocate(std::shared_ptr<device::Gpu> gpu, size_t bytes, std::unique_ptr<DeviceMemory>* memory) {
    void* data = nullptr;
    HVDLITE_RETURN_IF_ERROR(gpu->Allocate(bytes, &data));
    std::unique_ptr<DeviceMemory> made(new DeviceMemory(std::move(gpu), data));
    // The memory is there for its own stream; the operation happens on another.
    HVDLITE_RETURN_IF_ERROR(made->gpu_->Record(made->gpu_->stream(), &made->there_));
    *memory = std::move(made);
    return Status::Ok();
  }

  ~DeviceMemory() {
    device::EventPtr used;
    const Status recorded = has_user_ ? gpu_->Record(last_user_, &used) : Status::Ok();
    // The stream is being captured. What it did before may go on: Free takes its order for that, after the capture.
    if (recorded.code() == StatusCode::kUnsupported) {
      gpu_->Free(data_, last_user_);
      return;
    }
    // Any other failure means that the device, or the stream, is gone: then nothing uses the memory any more.
    if (used != nullptr) (void)used->HoldBack(gpu_->stream());
    if (flight != nullptr) (void)flight->HoldBack(gpu_->stream());
    gpu_->Free(data_, gpu_->stream());
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* data() const { return data_; }
  // What has to have fired before it may be written.
  const device::EventPtr& there() const { return there_; }
  // Is used on this stream: what is put there from now on finds the result.
  Status Follow(device::Stream stream) {
    if (flight != nullptr) HVDLITE_RETURN_IF_ERROR(flight->HoldBack(stream));
    UsedBy(stream);
    return Status::Ok();
  }
  // The result, to where another allocator wants it; the stream is its user.
  Status CopyTo(void* to, size_t bytes, device::Stream stream) {
    HVDLITE_RETURN_IF_ERROR(Follow(stream));
    return bytes == 0 ? Status::Ok() : gpu_->Copy(to, data_, bytes, stream);
  }
  void UsedBy(device::Stream stream) {
    has_user_ = true;
    last_user_ = stream;
  }

  FlightPtr flight;  // of the operation; null: it put nothing on the device

 private:
  DeviceMemory(std::shared_ptr<device::Gpu> gpu, void* data) : gpu_(std::move(gpu)), data_(data) {}

  const std::shared_ptr<device::Gpu> gpu_;
  void* const data_;
  device::EventPtr there_;
  bool has_user_ = false;
  device::Stream last_user_ = nullptr;
};

}  // namespace hvdlite::engine
