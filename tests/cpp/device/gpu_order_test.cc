// What happens on a GPU happens in the order that events make, and in no other that could be relied
// on.
#include <gtest/gtest.h>

#include <thread>

#include "testing/fake_cuda.h"

namespace hvdlite::device {
namespace {

using testing::Await;
using testing::FakeCuda;
using testing::MemoryForEveryStream;
using testing::UserStream;

constexpr size_t kTensorBytes = 4096;

class OrderTest : public ::testing::TestWithParam<int> {
 protected:
  OrderTest() { fake_cuda_set("seed", GetParam()); }
  FakeCuda cuda_;
};

TEST_P(OrderTest, WhatTheProducerWroteIsThereForWhoWaitsForItsEvent) {
  const auto gpu = cuda_.Open();
  const UserStream producer(gpu);
  const UserStream consumer(gpu);
  const auto tensor = MemoryForEveryStream(gpu, kTensorBytes);
  const auto result = MemoryForEveryStream(gpu, kTensorBytes);
  for (int round = 0; round < 20; ++round) {
    const auto value = static_cast<unsigned char>(round + 1);
    producer.Fill(tensor->data(), kTensorBytes, value);
    EventPtr ready;
    ASSERT_TRUE(gpu->Record(producer.get(), &ready).ok());
    ASSERT_TRUE(ready->MakeWait(gpu->stream()).ok());
    ASSERT_TRUE(gpu->Copy(result->data(), tensor->data(), kTensorBytes, gpu->stream()).ok());
    EventPtr finished;
    ASSERT_TRUE(gpu->Record(gpu->stream(), &finished).ok());
    ASSERT_TRUE(finished->MakeWait(consumer.get()).ok());
    EXPECT_EQ(consumer.Read(result->data(), kTensorBytes),
              std::vector<unsigned char>(kTensorBytes, value));
    ASSERT_TRUE(Await(finished).ok());
  }
}

TEST_P(OrderTest, ManyThreadsShareOneGpu) {
  const auto gpu = cuda_.Open();
  const auto train = [&](int thread) {
    const UserStream mine(gpu);
    for (int round = 0; round < 20; ++round) {
      const auto value = static_cast<unsigned char>(thread * 20 + round + 1);
      void* tensor = nullptr;
      std::unique_ptr<Gpu::Buffer> fused;
      std::unique_ptr<Gpu::Buffer> staged;
      ASSERT_TRUE(gpu->Allocate(kTensorBytes, &tensor).ok());
      ASSERT_TRUE(gpu->OnDevice(kTensorBytes, &fused).ok());
      ASSERT_TRUE(gpu->Pinned(kTensorBytes, &staged).ok());
      EventPtr there;
      ASSERT_TRUE(gpu->Record(gpu->stream(), &there).ok());
      ASSERT_TRUE(there->MakeWait(mine.get()).ok());
      mine.Fill(tensor, kTensorBytes, value);
      EventPtr ready;
      ASSERT_TRUE(gpu->Record(mine.get(), &ready).ok());
      ASSERT_TRUE(ready->MakeWait(gpu->stream()).ok());
      ASSERT_TRUE(gpu->Copy(fused->data(), tensor, kTensorBytes, gpu->stream()).ok());
      ASSERT_TRUE(gpu->CopyOut(staged->data(), fused->data(), kTensorBytes).ok());
      EventPtr finished;
      ASSERT_TRUE(gpu->Record(gpu->stream(), &finished).ok());
      ASSERT_TRUE(Await(finished).ok());
      EXPECT_EQ(std::string(static_cast<char*>(staged->data()), kTensorBytes),
                std::string(kTensorBytes, static_cast<char>(value)));
      gpu->Free(tensor, gpu->stream());
    }
  };
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) threads.emplace_back(train, thread);
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Seeds, OrderTest, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace hvdlite::device
