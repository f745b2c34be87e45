// The fake driver is as unforgiving as it says: what it did not notice, no test of hvdlite could.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "testing/fake_cuda.h"

namespace hvdlite::device {
namespace {

using testing::Await;
using testing::FakeCuda;
using testing::MemoryForEveryStream;
using testing::UserStream;

constexpr size_t kBytes = 4096;
constexpr unsigned char kRubbish = 0xA5;

Address At(void* data) {
  return reinterpret_cast<Address>(data);
}

#if !defined(__SANITIZE_THREAD__)  // which says itself that it is a race
TEST(FakeCuda, AStreamThatDoesNotWaitSeesWhatWasThereBefore) {
  FakeCuda cuda;
  const auto gpu = cuda.Open();
  const UserStream producer(gpu);
  const UserStream consumer(gpu);
  const auto tensor = MemoryForEveryStream(gpu, kBytes);
  fake_cuda_hold(producer.get(), 1);
  producer.Fill(tensor->data(), kBytes, 7);
  EXPECT_EQ(consumer.Read(tensor->data(), kBytes), std::vector<unsigned char>(kBytes, kRubbish));
  fake_cuda_hold(producer.get(), 0);
  EXPECT_EQ(producer.Read(tensor->data(), kBytes), std::vector<unsigned char>(kBytes, 7));
}
#endif

TEST(FakeCuda, AHostThatTouchesDeviceMemoryDies) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer does not fork well";
#endif
  if (pkey_alloc(0, 0) < 0) GTEST_SKIP() << "this processor has no memory protection keys";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  FakeCuda cuda;
  const auto gpu = cuda.Open();
  const auto tensor = MemoryForEveryStream(gpu, kBytes);
  EXPECT_DEATH(static_cast<volatile char*>(tensor->data())[0] = 1, "");
  fake_cuda_touch(1);
  EXPECT_EQ(static_cast<volatile unsigned char*>(tensor->data())[0], kRubbish);
  fake_cuda_touch(0);
}

TEST(FakeCuda, ComplainsWithoutAContext) {
  FakeCuda cuda;
  const auto driver = cuda.driver();
  Address address = 0;
  EXPECT_EQ(driver->MemAlloc(&address, 100), 201);
  EXPECT_EQ(FakeCuda::Complaints(), "cuMemAlloc_v2: no context is current\n");
}

TEST(FakeCuda, ComplainsAboutADeviceThatNobodyRetains) {
  FakeCuda cuda;
  fake_cuda_set("devices", 8);
  constexpr int kDevice = 6;  // others leak theirs on purpose where a device never comes to an end
  const auto driver = cuda.driver();
  Context context = nullptr;
  ASSERT_EQ(driver->DevicePrimaryCtxRetain(&context, kDevice), 0);
  ASSERT_EQ(driver->DevicePrimaryCtxRelease(kDevice), 0);
  ASSERT_EQ(driver->CtxPushCurrent(context), 0);
  Address address = 0;
  EXPECT_EQ(driver->MemAlloc(&address, 100), 709);
  EXPECT_EQ(FakeCuda::Complaints(), "cuMemAlloc_v2: nobody retains the current context\n");
  EXPECT_EQ(driver->DevicePrimaryCtxRelease(kDevice), 201);
  EXPECT_EQ(FakeCuda::Complaints(),
            "cuDevicePrimaryCtxRelease_v2: released more often than retained\n");
  ASSERT_EQ(driver->CtxPopCurrent(&context), 0);
}

TEST(FakeCuda, ComplainsAboutMemoryThatIsFreedTwice) {
  FakeCuda cuda;
  const auto gpu = cuda.Open();
  const Gpu::Current current(*gpu);
  Address address = 0;
  ASSERT_EQ(gpu->driver().MemAlloc(&address, 100), 0);
  EXPECT_EQ(gpu->driver().MemFree(address), 0);
  EXPECT_EQ(gpu->driver().MemFree(address), 1);
  EXPECT_EQ(FakeCuda::Complaints(), "cuMemFree_v2: there is no such block, or it has been freed\n");
}

TEST(FakeCuda, WhatIsFreedUnderItsUserBreaksTheDevice) {
  FakeCuda cuda;
  const auto gpu = cuda.Open();
  {
    const Gpu::Current current(*gpu);
    Address address = 0;
    ASSERT_EQ(gpu->driver().MemAlloc(&address, kBytes), 0);
    fake_cuda_hold(gpu->stream(), 1);
    ASSERT_EQ(gpu->driver().MemsetD8Async(address, 1, kBytes, gpu->stream()), 0);
    ASSERT_EQ(gpu->driver().MemFree(address), 0);
    fake_cuda_hold(gpu->stream(), 0);
    EXPECT_EQ(gpu->driver().StreamSynchronize(gpu->stream()), 700);
  }
  EXPECT_EQ(FakeCuda::Complaints(), "a copy reaches memory that is not, or no longer, allocated\n");
  fake_cuda_break(0, 0);
}

TEST(FakeCuda, ComplainsAboutWhatBelongsToAnotherDevice) {
  FakeCuda cuda;
  const auto one = cuda.Open(0);
  const auto other = cuda.Open(1);
  std::unique_ptr<Gpu::Buffer> there;
  ASSERT_TRUE(other->OnDevice(kBytes, &there).ok());
  const Gpu::Current current(*one);
  EXPECT_EQ(one->driver().MemsetD8Async(At(there->data()), 0, kBytes, one->stream()), 1);
  EXPECT_EQ(FakeCuda::Complaints(), "cuMemsetD8Async: this is no memory of the current device\n");
  EXPECT_EQ(one->driver().StreamSynchronize(other->stream()), 400);
  EXPECT_EQ(FakeCuda::Complaints(),
            "cuStreamSynchronize: the stream is of another context than the current\n");
}

TEST(FakeCuda, HostWorkRunsInTheOrderOfItsStream) {
  FakeCuda cuda;
  const auto gpu = cuda.Open();
  std::vector<int> seen;
  struct Step {
    std::vector<int>* seen;
    int number;
  };
  std::vector<Step> steps;
  for (int i = 0; i < 20; ++i) steps.push_back({&seen, i});
  {
    const Gpu::Current current(*gpu);
    for (Step& step : steps) {
      const auto run = [](void* argument) {
        const Step& mine = *static_cast<Step*>(argument);
        mine.seen->push_back(mine.number);
      };
      ASSERT_EQ(fake_cuda_enqueue(gpu->stream(), run, run, &step), 0);
    }
  }
  EventPtr finished;
  ASSERT_TRUE(gpu->Record(gpu->stream(), &finished).ok());
  ASSERT_TRUE(Await(finished).ok());
  ASSERT_EQ(seen.size(), steps.size());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(seen[static_cast<size_t>(i)], i);
}

TEST(FakeCuda, FailsAsOftenAsItWasTold) {
  FakeCuda cuda;
  const auto gpu = cuda.Open();
  fake_cuda_fail("cuEventRecord", 2, 2, 999);
  std::vector<bool> worked;
  for (int i = 0; i < 5; ++i) {
    EventPtr event;
    worked.push_back(gpu->Record(gpu->stream(), &event).ok());
  }
  EXPECT_EQ(worked, (std::vector<bool>{true, false, false, true, true}));
}

}  // namespace
}  // namespace hvdlite::device
