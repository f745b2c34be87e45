// What goes wrong with NCCL, and that nobody hangs for it: late producers, lost peers, errors now
// and later, no memory.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <vector>

#include "nccl_world.h"
#include "testing/says.h"

namespace hvdlite::comm::net_testing {
namespace {

using hvdlite::testing::Patience;

// The member's device does what its user wants as before.
void ExpectUsable(NcclMember* member) {
  std::unique_ptr<Gpu::Buffer> there;
  std::unique_ptr<Gpu::Buffer> here;
  ASSERT_TRUE(member->gpu->OnDevice(64, &there).ok());
  ASSERT_TRUE(member->gpu->Pinned(64, &here).ok());
  std::memset(here->data(), 7, 64);
  ASSERT_TRUE(member->gpu->CopyIn(there->data(), here->data(), 64).ok());
  ASSERT_TRUE(member->gpu->CopyOut(here->data(), there->data(), 64).ok());
  EventPtr done;
  ASSERT_TRUE(member->gpu->Record(member->gpu->stream(), &done).ok());
  ASSERT_TRUE(Await(done).ok());
  EXPECT_EQ(static_cast<const char*>(here->data())[63], 7);
}

double SecondsOf(const std::function<void()>& body) {
  const Nanos begin = MonotonicNow();
  body();
  return static_cast<double>(MonotonicNow() - begin) / kSecond;
}

TEST(Nccl, ABatchWaitsForAProducerThatIsLateAndItsHostDoesNot) {
  NcclWorld world(2);
  Trial trial(Sum(2, {5000, 3}));
  fake_cuda_hold(world.member(1).user->stream(), 1);
  const std::vector<Status> statuses = world.Run([&](int me, NcclMember& member) {
    GpuTrial mine(trial.batch(me), &member, me, 2);
    EventPtr finished;
    // Done while the producer has not begun.
    HVDLITE_RETURN_IF_ERROR(StartAndDrive(&member, mine.batch(), &finished));
    mine.Consume(finished);
    if (me == 1) {
      usleep(50000);
      bool fired = true;
      EXPECT_TRUE(finished->Query(&fired).ok());
      EXPECT_FALSE(fired);
      fake_cuda_hold(member.user->stream(), 0);
    }
    return mine.Finish();
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
  for (int m = 0; m < 2; ++m) EXPECT_EQ(trial.Check(m), "");
}

TEST(Nccl, ALargerBatchLeavesTheSmallerBufferToWhoStillUsesIt) {
  if (!HasKernels()) GTEST_SKIP() << kNoKernels;
  NcclWorld world(1);
  NcclMember& member = world.member(0);
  Trial small(Sum(1, {500, 3}));
  Trial large(Sum(1, {50000, 3}));
  fake_cuda_hold(member.user->stream(), 1);
  GpuTrial first(small.batch(0), &member, 0, 1);
  GpuTrial second(large.batch(0), &member, 0, 1);
  EventPtr finished;
  ASSERT_TRUE(StartAndDrive(&member, first.batch(), &finished).ok());
  first.Consume(finished);
  const long blocks = fake_cuda_live("memory");
  ASSERT_TRUE(StartAndDrive(&member, second.batch(), &finished).ok());
  second.Consume(finished);
  EXPECT_EQ(fake_cuda_live("memory"), blocks + 1) << "the first batch's buffer is still there";
  fake_cuda_hold(member.user->stream(), 0);
  ASSERT_TRUE(first.Finish().ok() && second.Finish().ok());
  EXPECT_EQ(small.Check(0) + large.Check(0), "");
}

TEST(Nccl, APeerThatNeverComesIsWaitedForUntilAborted) {
  for (int background : {0, 100}) {
    NcclWorld world(3);
    fake_nccl_set("background", background);
    Trial trial(Sum(3, {5000, 3}));
    std::vector<std::unique_ptr<GpuTrial>> trials(3);
    for (int me : {0, 2}) {
      trials[static_cast<size_t>(me)] =
          std::make_unique<GpuTrial>(trial.batch(me), &world.member(me), me, 3);
      EventPtr finished;
      ASSERT_TRUE(
          StartAndDrive(&world.member(me), trials[static_cast<size_t>(me)]->batch(), &finished)
              .ok());
      trials[static_cast<size_t>(me)]->Consume(finished);
    }
    usleep(20000);
    for (int me : {0, 2}) EXPECT_FALSE(trials[static_cast<size_t>(me)]->Consumed());
    for (int me : {0, 2}) {
      NcclMember& member = world.member(me);
      member.Abort();
      FakeNccl::ExpectLeft(me == 0 ? 2 : 1);
      EXPECT_FALSE(member.communicator->Look().ok());
      EXPECT_TRUE(trials[static_cast<size_t>(me)]->Finish().ok());  // the streams go on
      ExpectUsable(&member);
      EventPtr finished;
      const Status again =
          StartAndDrive(&member, trials[static_cast<size_t>(me)]->batch(), &finished);
      EXPECT_TRUE(Says(again, "aborted"));
      member.communicator.reset();
    }
    world.member(1).Abort();
  }
}

TEST(Nccl, WhoDoesNotAbortGetsAwayAllTheSame) {
  NcclWorld world(2);
  Trial trial(Sum(2, {5000}));
  GpuTrial mine(trial.batch(0), &world.member(0), 0, 2);
  EventPtr finished;
  ASSERT_TRUE(StartAndDrive(&world.member(0), mine.batch(), &finished).ok());
  // Member 0 alone has started something, and both end.
  EXPECT_LT(SecondsOf([&] { world.Destroy(); }), 10 + 5 * Patience());
  EXPECT_TRUE(Await(finished).ok());
}

// ncclCommDestroy waits for the other processes of the host, and its frees for the whole device.
TEST(Nccl, WhoTakesLeaveDoesNotWaitForNcclToFreeWhatItHolds) {
  NcclWorld world(2);
  fake_nccl_set("linger", 1);
  world.Destroy();
  EXPECT_EQ(fake_nccl_live(), 2);
  fake_nccl_set("linger", 0);
  FakeNccl::ExpectLeft(0);
}

// It would mix them up: what goes on in the background belongs to the thread that has asked for it.
TEST(Nccl, AnOlderOneIsAskedByAThreadForEachCommunicator) {
  setenv("FAKE_NCCL_VERSION", "22003", 1);
  {
    NcclWorld world(NcclShape{"abab"});  // three communicators for each member
    Trial trial(Sum(4, {5000, 3}));
    const std::vector<Status> statuses = world.Run([&](int me, NcclMember& member) {
      GpuTrial mine(trial.batch(me), &member, me, 4);
      EventPtr finished;
      HVDLITE_RETURN_IF_ERROR(StartAndDrive(&member, mine.batch(), &finished));
      mine.Consume(finished);
      return mine.Finish();
    });
    for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
    for (int m = 0; m < 4; ++m) EXPECT_EQ(trial.Check(m), "");
  }
  unsetenv("FAKE_NCCL_VERSION");
  fake_nccl_reset();
}

TEST(Nccl, AnInitialisationThatOthersDoNotJoinIsAbortedToo) {
  const auto world = NcclWorld::Bare(2);
  ASSERT_TRUE(world->Begin(0).ok());
  bool ready = true;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(world->member(0).channels->Poll(&ready).ok());
    EXPECT_FALSE(ready);
    usleep(1000);
  }
  world->Destroy();
  FakeNccl::ExpectLeft(0);
  ExpectUsable(&world->member(0));
}

TEST(Nccl, AnInitialisationThatFailsSaysWhy) {
  for (const char* symbol : {"ncclCommInitRankConfig", "init"}) {
    const auto world = NcclWorld::Bare(2);
    fake_nccl_fail(symbol, 1, 1, 2);
    ASSERT_TRUE(world->Begin(0).ok());
    Status status = world->Begin(1);
    if (status.ok()) status = world->AwaitReady(1);
    EXPECT_TRUE(FailsWith(status, StatusCode::kPeerLost, "unhandled system error"));
  }
}

TEST(Nccl, ACallThatFailsFailsTheWorkWithNcclsWords) {
  for (const char* symbol :
       {"ncclAllReduce", "ncclGroupStart", "ncclGroupEnd", "ncclCommGetAsyncError"}) {
    NcclWorld world(1, /*kernels=*/false);  // several tensors make a group
    fake_nccl_fail(symbol, -1, 1, 3);
    Trial trial(Sum(1, {10, 20}));
    GpuTrial mine(trial.batch(0), &world.member(0), 0, 1);
    EventPtr finished;
    const Status status = StartAndDrive(&world.member(0), mine.batch(), &finished);
    EXPECT_TRUE(FailsWith(status, StatusCode::kIo, "internal error"));
    EXPECT_EQ(world.member(0).communicator->Look().ToString(), status.ToString());
  }
}

// Both have been told that it is done; then one's fails on the device. The other hears of it from
// the engine.
TEST(Nccl, AnErrorThatComesLaterComesOutWhenLookedFor) {
  NcclWorld world(2);
  fake_nccl_fail("operation", 1, 1, 6);
  Trial trial(Sum(2, {5000}));
  std::atomic<bool> known{false};
  const std::vector<Status> statuses = world.Run([&](int me, NcclMember& member) {
    GpuTrial mine(trial.batch(me), &member, me, 2);
    EventPtr finished;
    Status status = StartAndDrive(&member, mine.batch(), &finished);
    while (status.ok() && !known) status = member.communicator->Look();
    known = true;
    member.Abort();
    EXPECT_TRUE(finished == nullptr || Await(finished).ok());
    ExpectUsable(&member);
    return status;
  });
  EXPECT_TRUE(FailsWith(statuses[1], StatusCode::kPeerLost, "(the fake was told to fail)"));
}

TEST(Nccl, ADeviceThatFailsLaterIsSeenWhenLookedFor) {
  NcclWorld world(1);
  NcclMember& member = world.member(0);
  Trial trial(Sum(1, {500}));
  fake_cuda_hold(member.user->stream(), 1);
  GpuTrial mine(trial.batch(0), &member, 0, 1);
  EventPtr finished;
  ASSERT_TRUE(StartAndDrive(&member, mine.batch(), &finished).ok());
  EXPECT_TRUE(member.communicator->Look().ok());
  fake_cuda_break(member.gpu->ordinal(), 700);
  EXPECT_EQ(member.communicator->Look().code(), StatusCode::kIo);
  fake_cuda_hold(member.user->stream(), 0);
  member.Abort();
}

TEST(Nccl, MembersThatDoDifferentThingsAreToldSo) {
  NcclWorld world(2);
  std::vector<Status> statuses = world.Run([&](int me, NcclMember& member) {
    Trial trial(Sum(2, {me == 0 ? 100 : 200}));
    GpuTrial mine(trial.batch(me), &member, me, 2);
    EventPtr finished;
    Status status = StartAndDrive(&member, mine.batch(), &finished);
    while (status.ok()) status = member.communicator->Look();
    member.Abort();
    EXPECT_TRUE(finished == nullptr || Await(finished).ok());
    return status;
  });
  for (const Status& status : statuses) EXPECT_FALSE(status.ok());
  EXPECT_TRUE(Says(FakeNccl::Complaints(), "ncclAllReduce(count 100"));
}

TEST(Nccl, WithoutDeviceMemoryThePackedTensorsGoThroughPinnedMemory) {
  NcclWorld world(2);
  Trial trial(Sum(2, {5000, 3, 70}));
  // The tensors are there before: only the buffer is not.
  std::vector<std::unique_ptr<GpuTrial>> trials;
  for (int me = 0; me < 2; ++me) {
    trials.push_back(std::make_unique<GpuTrial>(trial.batch(me), &world.member(me), me, 2));
  }
  fake_cuda_fail("cuMemAllocFromPoolAsync", 1, 1000, device::kOutOfMemory);
  const std::vector<Status> statuses = world.Run([&](int me, NcclMember& member) {
    EventPtr finished;
    HVDLITE_RETURN_IF_ERROR(
        StartAndDrive(&member, trials[static_cast<size_t>(me)]->batch(), &finished));
    trials[static_cast<size_t>(me)]->Consume(finished);
    return trials[static_cast<size_t>(me)]->Finish();
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
  for (int m = 0; m < 2; ++m) EXPECT_EQ(trial.Check(m), "");
}

TEST(Nccl, WithoutAnyMemoryABatchOfSeveralTensorsFailsWithTheDriversWords) {
  if (!HasKernels()) GTEST_SKIP() << kNoKernels;
  NcclWorld world(1);
  NcclMember& member = world.member(0);
  Trial trial(Sum(1, {5000, 3}));
  GpuTrial mine(trial.batch(0), &member, 0, 1);
  fake_cuda_fail("cuMemAllocFromPoolAsync", 1, 2, device::kOutOfMemory);
  fake_cuda_fail("cuMemHostAlloc", 1, 2, device::kOutOfMemory);
  EventPtr finished;
  const Status status = StartAndDrive(&member, mine.batch(), &finished);
  EXPECT_TRUE(FailsWith(status, StatusCode::kIo, "bytes on Fake GPU 0: out of memory"));
  EXPECT_EQ(finished, nullptr);
  EXPECT_TRUE(member.communicator->Look().ok()) << "NCCL has not been called";
  ASSERT_TRUE(StartAndDrive(&member, mine.batch(), &finished).ok());
  mine.Consume(finished);
  EXPECT_TRUE(mine.Finish().ok());
  EXPECT_EQ(trial.Check(0), "");
}

TEST(Nccl, GivesItsCommunicatorsBackInOrder) {
  NcclWorld world(3);
  EXPECT_EQ(fake_nccl_live(), 3);
  EXPECT_EQ(RunGpuCases(&world, {Sum(3, {100}), Sum(3, {5, 6})}), 2u);
  world.ShutDown();
  FakeNccl::ExpectLeft(0);
  world.Destroy();
  EXPECT_EQ(fake_nccl_calls("ncclCommFinalize"), 3);
  EXPECT_EQ(fake_nccl_calls("ncclCommDestroy"), 3);
  EXPECT_EQ(fake_nccl_calls("ncclCommAbort"), 0);
}

}  // namespace
}  // namespace hvdlite::comm::net_testing
