// A GPU for the tests of kernels: the fake one, or, where HVDLITE_TEST_CUDA_LIBRARY names a driver,
// a real one (tests/gpu/run does). Bytes go there and come back by copies alone.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "device/gpu.h"
#include "kernels/cuda/image.h"

namespace hvdlite::kernels {

using Bytes = std::vector<uint8_t>;

constexpr uint8_t kRubbish = 0x4b;  // what memory has that a kernel has not written

class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::Images().empty())
      GTEST_SKIP() << "this build has no GPU kernels: neither nvcc nor NVRTC was there";
    const char* real = std::getenv("HVDLITE_TEST_CUDA_LIBRARY");
    std::shared_ptr<const device::Driver> driver;
    Status status = device::LoadDriver(real != nullptr ? real : HVDLITE_FAKE_CUDA, &driver);
    ASSERT_TRUE(status.ok()) << status.message();
    status = device::Gpu::Open(driver, 0, &gpu_);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  // Device memory with these bytes in it; it stays until the end of the test.
  uint8_t* Upload(const Bytes& bytes) {
    std::unique_ptr<device::Gpu::Buffer> buffer;
    Check(gpu_->OnDevice(bytes.size() + 1, &buffer));
    uint8_t* const address = static_cast<uint8_t*>(buffer->data());
    Check(gpu_->CopyIn(address, bytes.data(), bytes.size()));
    Synchronize();
    buffers_.push_back(std::move(buffer));
    return address;
  }
  // What is there once the stream has done everything.
  Bytes Download(const void* address, size_t count) {
    Bytes bytes(count);
    Check(gpu_->CopyOut(bytes.data(), address, count));
    Synchronize();
    return bytes;
  }
  // Frees what has been uploaded.
  void Forget() {
    Synchronize();
    buffers_.clear();
  }
  void Synchronize() {
    const device::Gpu::Current current(*gpu_);
    Check(gpu_->driver().Check(gpu_->driver().StreamSynchronize(gpu_->stream()), "waiting"));
  }
  static void Check(const Status& status) { ASSERT_TRUE(status.ok()) << status.message(); }

  std::shared_ptr<device::Gpu> gpu_;

 private:
  std::vector<std::unique_ptr<device::Gpu::Buffer>> buffers_;
};

}  // namespace hvdlite::kernels
