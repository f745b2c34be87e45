// How members part from NCCL: in order, or by force where that does not go; and that its memory is
// free only when the device is done.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "nccl_world.h"
#include "testing/says.h"

namespace hvdlite::comm::net_testing {
namespace {

constexpr int kUnknown = 999;

// Puts a batch on the stream, behind the user's.
std::unique_ptr<GpuTrial> PutOn(NcclMember* member, const Trial& trial) {
  auto mine = std::make_unique<GpuTrial>(trial.batch(0), member, 0, 1);
  EventPtr finished;
  EXPECT_TRUE(StartAndDrive(member, mine->batch(), &finished).ok());
  mine->Consume(finished);
  return mine;
}

// Its only member goes by force, after it has tried so often to take leave.
void ExpectDestroyedByAbort(NcclWorld* world, int tries) {
  world->Destroy();
  FakeNccl::ExpectLeft(0);
  EXPECT_EQ(fake_nccl_calls("ncclCommFinalize"), tries);
  EXPECT_EQ(fake_nccl_calls("ncclCommDestroy"), 0);
  EXPECT_EQ(fake_nccl_calls("ncclCommAbort"), 1);
}

TEST(NcclEnd, AnAbortThatHangsHoldsUpNobody) {
  NcclWorld world(1);
  NcclMember& member = world.member(0);
  Trial trial(Sum(1, {500}));
  fake_nccl_set("hold_abort", 1);
  member.Abort();
  while (fake_nccl_calls("ncclCommAbort") == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(fake_nccl_live(), 1) << "NCCL is still at it";
  EXPECT_TRUE(Says(member.communicator->Look(), "aborted"));
  GpuTrial mine(trial.batch(0), &member, 0, 1);
  mine.Consume(mine.batch().ready[0]);
  EXPECT_TRUE(mine.Finish().ok()) << "the device is its user's as before";
  world.Destroy();
  EXPECT_EQ(fake_nccl_live(), 1);
  EXPECT_EQ(fake_nccl_calls("ncclCommAbort"), 1);
  fake_nccl_set("hold_abort", 0);
  FakeNccl::ExpectLeft(0);
}

TEST(NcclEnd, WhoCannotTakeLeaveAborts) {
  NcclWorld world(1);
  fake_nccl_fail("ncclCommFinalize", 0, 1, 3);
  ExpectDestroyedByAbort(&world, 1);
}

TEST(NcclEnd, ALeaveWithoutTheDevicesContextIsAnAbort) {
  NcclWorld world(1);
  fake_cuda_fail("cuCtxPushCurrent_v2", 1, 1, kUnknown);
  ExpectDestroyedByAbort(&world, 0);
}

TEST(NcclEnd, WithoutTheDevicesContextNothingBegins) {
  const auto world = NcclWorld::Bare(1);
  fake_cuda_fail("cuCtxPushCurrent_v2", 1, 1, kUnknown);
  const Status status = world->Begin(0);
  EXPECT_TRUE(FailsWith(status, StatusCode::kIo, "making the GPU's context current"));
  EXPECT_EQ(fake_nccl_calls("ncclCommInitRankConfig"), 0);
  ASSERT_TRUE(world->Begin(0).ok());
  EXPECT_TRUE(world->AwaitReady(0).ok());
}

// Two buffers are in use, one of them no longer the communicator's, when the device breaks: neither
// is freed, for it may still write there.
TEST(NcclEnd, WhatABrokenDeviceMayStillUseIsNotFreed) {
  if (!HasKernels()) GTEST_SKIP() << kNoKernels;
  NcclWorld world(1);
  NcclMember& member = world.member(0);
  Trial small(Sum(1, {500, 3}));
  Trial large(Sum(1, {50000, 3}));
  fake_cuda_hold(member.user->stream(), 1);
  const auto first = PutOn(&member, small);
  const auto second = PutOn(&member, large);
  const long frees = fake_cuda_calls("cuMemFreeAsync");
  member.Abort();
  fake_cuda_break(member.gpu->ordinal(), 700);
  world.Destroy();
  EXPECT_EQ(fake_cuda_calls("cuMemFreeAsync"), frees);
  fake_cuda_break(member.gpu->ordinal(), 0);
  fake_cuda_hold(member.user->stream(), 0);
}

}  // namespace
}  // namespace hvdlite::comm::net_testing
