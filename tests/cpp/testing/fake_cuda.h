// FakeCuda: one test's use of the fake driver (tests/fake_gpu): what it commands ends with the
// test, whatever the driver complained about fails it, and a test whose streams never get there
// says where.
//
//   FakeCuda cuda;
//   ASSERT_EQ(LoadDriver(FakeCuda::kLibrary, &driver), ...)
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "device/gpu.h"
#include "fake_gpu/fake_cuda.h"
#include "testing/watchdog.h"

namespace hvdlite::testing {

class FakeCuda {
 public:
  static constexpr const char* kLibrary = HVDLITE_FAKE_CUDA;

  FakeCuda() {
    fake_cuda_settle();
    fake_cuda_reset();
  }
  ~FakeCuda() {
    fake_cuda_settle();
    EXPECT_EQ(Complaints(), "");
    fake_cuda_reset();
  }
  FakeCuda(const FakeCuda&) = delete;

  std::shared_ptr<const device::Driver> driver() {
    std::shared_ptr<const device::Driver> driver;
    EXPECT_EQ(device::LoadDriver(kLibrary, &driver).ToString(), Status::Ok().ToString());
    return driver;
  }
  std::shared_ptr<device::Gpu> Open(int ordinal = 0) {
    std::shared_ptr<device::Gpu> gpu;
    EXPECT_EQ(device::Gpu::Open(driver(), ordinal, &gpu).ToString(), Status::Ok().ToString());
    return gpu;
  }

  // What the driver complained about so far, which is then forgiven.
  static std::string Complaints() {
    std::array<char, 4096> text{};
    fake_cuda_complaints(text.data(), text.size());
    fake_cuda_forgive();
    return text.data();
  }

 private:
  const Watchdog watchdog_{120};
};

// What a framework has: a stream of its own on the device.
class UserStream {
 public:
  explicit UserStream(std::shared_ptr<device::Gpu> gpu) : gpu_(std::move(gpu)) {
    const device::Gpu::Current current(*gpu_);
    EXPECT_EQ(gpu_->driver().StreamCreate(&stream_, 1, 0), 0);
  }
  ~UserStream() {
    const device::Gpu::Current current(*gpu_);
    EXPECT_EQ(gpu_->driver().StreamDestroy(stream_), 0);
  }
  UserStream(const UserStream&) = delete;

  device::Stream get() const { return stream_; }

  // Puts a copy of `value`, as often as it fits, into device memory: a producer at work.
  void Fill(void* data, size_t bytes, unsigned char value) const {
    const device::Gpu::Current current(*gpu_);
    EXPECT_EQ(gpu_->driver().MemsetD8Async(reinterpret_cast<device::Address>(data), value, bytes,
                                           stream_),
              0);
  }
  // Copies out behind what the stream has been given so far, and waits for that: what a consumer
  // sees.
  std::vector<unsigned char> Read(const void* data, size_t bytes) const {
    std::vector<unsigned char> seen(bytes);
    const device::Gpu::Current current(*gpu_);
    EXPECT_EQ(gpu_->driver().MemcpyDtoHAsync(seen.data(), reinterpret_cast<device::Address>(data),
                                             bytes, stream_),
              0);
    return seen;
  }

 private:
  const std::shared_ptr<device::Gpu> gpu_;
  device::Stream stream_ = nullptr;
};

// Asks an event until it has fired.
inline Status Await(const device::EventPtr& event) {
  for (bool fired = false;;) {
    const Status status = event->Query(&fired);
    if (!status.ok() || fired) return status;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

// Device memory that is there for every stream: Gpu's own comes in the order of its stream, before
// which it is nobody's.
inline std::unique_ptr<device::Gpu::Buffer> MemoryForEveryStream(
    const std::shared_ptr<device::Gpu>& gpu, size_t bytes) {
  std::unique_ptr<device::Gpu::Buffer> buffer;
  EXPECT_EQ(gpu->OnDevice(bytes, &buffer).ToString(), Status::Ok().ToString());
  device::EventPtr there;
  EXPECT_EQ(gpu->Record(gpu->stream(), &there).ToString(), Status::Ok().ToString());
  EXPECT_EQ(Await(there).ToString(), Status::Ok().ToString());
  return buffer;
}

}  // namespace hvdlite::testing
