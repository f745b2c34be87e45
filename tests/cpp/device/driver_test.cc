// The driver is found by name; where there is none that could be used, a sentence says why.
#include "device/driver.h"

#include <gtest/gtest.h>

#include "testing/fake_cuda.h"

namespace hvdlite::device {
namespace {

using testing::FakeCuda;

std::string WhyNot(const std::string& library) {
  std::shared_ptr<const Driver> driver;
  const Status status = LoadDriver(library, &driver);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(driver, nullptr);
  return status.message();
}

TEST(Driver, IsNotInstalled) {
  EXPECT_EQ(WhyNot("libcuda-of-nobody.so.1"),
            "CUDA cannot be used: no NVIDIA driver is installed here (libcuda-of-nobody.so.1: "
            "cannot open shared "
            "object file: "
            "No such file or directory)");
}

TEST(Driver, IsAnotherLibrary) {
  EXPECT_EQ(WhyNot("libm.so.6"), "CUDA cannot be used: there is no cuInit in libm.so.6");
}

TEST(Driver, IsTooOld) {
  const FakeCuda cuda;
  fake_cuda_set("version", 11020);
  EXPECT_EQ(WhyNot(FakeCuda::kLibrary),
            "CUDA cannot be used: the NVIDIA driver is too old: it is of CUDA 11.2, hvdlite needs "
            "that of 11.4 or later");
}

TEST(Driver, SeesNoGpu) {
  const FakeCuda cuda;
  fake_cuda_set("devices", 0);
  EXPECT_EQ(WhyNot(FakeCuda::kLibrary),
            "CUDA cannot be used: this process sees no GPU; CUDA_VISIBLE_DEVICES, a container or a "
            "scheduler may hide it");
}

TEST(Driver, SaysItselfWhyItDoesNotStart) {
  const FakeCuda cuda;
  fake_cuda_fail("cuInit", 1, 1, 803);
  EXPECT_EQ(
      WhyNot(FakeCuda::kLibrary),
      "CUDA cannot be used: the NVIDIA driver (CUDA 13.0) says: system has unsupported display "
      "driver / cuda driver "
      "combination (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH); nvidia-smi on this host should say more");
}

TEST(Driver, SaysItselfWhyItCannotCountTheGpus) {
  const FakeCuda cuda;
  fake_cuda_fail("cuDeviceGetCount", 1, 1, 999);
  EXPECT_EQ(WhyNot(FakeCuda::kLibrary),
            "CUDA cannot be used: the NVIDIA driver (CUDA 13.0) says: unknown error "
            "(CUDA_ERROR_UNKNOWN); nvidia-smi "
            "on this host should say more");
}

TEST(Driver, IsThere) {
  FakeCuda cuda;
  EXPECT_EQ(cuda.driver()->version, 13000);
}

TEST(Driver, PutsItsErrorsIntoWords) {
  FakeCuda cuda;
  const auto driver = cuda.driver();
  EXPECT_TRUE(driver->Check(kSuccess, "resting").ok());
  const Status status = driver->Check(kOutOfMemory, "allocating");
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_EQ(status.message(),
            "CUDA failed while allocating: out of memory (CUDA_ERROR_OUT_OF_MEMORY)");
  EXPECT_EQ(driver->Check(12345, "counting").message(), "CUDA failed while counting: error 12345");
}

}  // namespace
}  // namespace hvdlite::device
