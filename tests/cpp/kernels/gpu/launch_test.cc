// What is said where kernels cannot run.
#include <gtest/gtest.h>

#include "kernels/cuda/image.h"
#include "kernels/gpu.h"
#include "testing/fake_cuda.h"
#include "testing/says.h"

namespace hvdlite::kernels {
namespace {

class LaunchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::Images().empty())
      GTEST_SKIP() << "this build has no GPU kernels: neither nvcc nor NVRTC was there";
  }
  long long number_ = 2;  // what kernels read and write, until cuda_ has ended its streams
  hvdlite::testing::FakeCuda cuda_;
};

TEST_F(LaunchTest, ADeviceThatIsTooOldIsNamed) {
  fake_cuda_set("capability", 70);
  const auto gpu = cuda_.Open();
  const Status status = Usable(gpu.get());
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(status.message(), "hvdlite's GPU kernels do not run on " + gpu->name() +
                                  ": its compute capability 7.0 is too old for them");
  EXPECT_EQ(MoveScaled(gpu.get(), {.first = 2.0}, {{&number_, &number_, 1}}).code(),
            StatusCode::kUnsupported);
}

TEST_F(LaunchTest, ADeviceThatIsNewerThanThisBuildRunsThem) {
  fake_cuda_set("capability", 130);
  EXPECT_EQ(Usable(cuda_.Open().get()).ToString(), Status::Ok().ToString());
}

// A driver may wait for the whole device to load one.
TEST_F(LaunchTest, KernelsAreLoadedBeforeAnyOfThemIsNeeded) {
  const auto gpu = cuda_.Open();
  EXPECT_EQ(Usable(gpu.get()).ToString(), Status::Ok().ToString());
  const long loaded = fake_cuda_calls("cuModuleGetFunction");
  EXPECT_GT(loaded, 20);
  EXPECT_EQ(MoveScaled(gpu.get(), {.dtype = DType::kInt64, .first = 0.5}, {{&number_, &number_, 1}})
                .ToString(),
            Status::Ok().ToString());
  EXPECT_EQ(fake_cuda_calls("cuModuleGetFunction"), loaded);
}

TEST_F(LaunchTest, AnImageThatTheDriverRefusesIsNoFailure) {
  constexpr int kUnsupportedPtxVersion = 222;
  fake_cuda_fail("cuModuleLoadData", 1, 1, kUnsupportedPtxVersion);
  EXPECT_EQ(Usable(cuda_.Open().get()).code(), StatusCode::kUnsupported);
}

TEST_F(LaunchTest, AFailedLaunchSaysWhichKernel) {
  const auto gpu = cuda_.Open();
  EXPECT_EQ(Usable(gpu.get()).ToString(), Status::Ok().ToString());
  constexpr int kOutOfResources = 701;
  fake_cuda_fail("cuLaunchKernel", 1, 1, kOutOfResources);
  const Status status =
      MoveScaled(gpu.get(), {.dtype = DType::kBFloat16, .first = 0.5}, {{&number_, &number_, 1}});
  EXPECT_TRUE(FailsWith(status, StatusCode::kIo, "starting the kernel hvdlite_scale_bfloat16"));
}

TEST_F(LaunchTest, WhatIsWhereItBelongsIsLeftThere) {
  const auto gpu = cuda_.Open();
  EXPECT_EQ(MoveScaled(gpu.get(), {}, {{&number_, &number_, 1}}).ToString(),
            Status::Ok().ToString());
  EXPECT_EQ(fake_cuda_calls("cuLaunchKernel"), 0);
}

}  // namespace
}  // namespace hvdlite::kernels
