// What goes wrong under whole engines with tensors on (fake) GPUs: each call of the driver's and of
// NCCL's that can fail does; memory that is freed while the device may still use it; frees that
// wait for the device.
#include <algorithm>
#include <array>
#include <barrier>
#include <thread>

#include "testing/fake_nccl.h"
#include "testing/gpu_rank.h"
#include "testing/says.h"
#include "testing/tier.h"

extern "C" {
int cuStreamBeginCapture_v2(void* stream, int mode);
int cuStreamEndCapture(void* stream, void** graph);
}

namespace hvdlite::testing {
namespace {

constexpr int kOutOfMemory = 2;
constexpr int kUnknown = 999;

// One of each, by one rank of two.
struct Work {
  std::string name;
  Submission submission;
  std::vector<float> expected;
  HandlePtr handle;
  Status status;
};

std::vector<Work> OneOfEach(GpuRank* mine, int rank) {
  std::vector<Work> works;
  const auto add = [&](OpKind kind, const std::string& name, size_t elements,
                       std::vector<float> expected) {
    const TensorView x = mine->Put(std::vector<float>(elements, static_cast<float>(rank + 1)));
    works.push_back({name, mine->Ask(kind, name, x), std::move(expected), nullptr, {}});
    return &works.back().submission.request;
  };
  for (const size_t elements : {3000, 7}) {
    add(OpKind::kAllreduce, "sum" + std::to_string(elements), elements,
        std::vector<float>(elements, 3));
  }
  add(OpKind::kAllreduce, "encoded", 3000, std::vector<float>(3000, 3))->codec = {Codec::kSign, 0};
  add(OpKind::kBroadcast, "told", 500, std::vector<float>(500, 2))->root = 1;
  add(OpKind::kReducescatter, "scattered", 100, std::vector<float>(50, 3));
  std::vector<float> both(300, 1);
  both.resize(600, 2);
  add(OpKind::kAllgather, "gathered", 300, both);
  add(OpKind::kAlltoall, "parts", 600, both)->splits = {300, 300};
  return works;
}

// Both ranks do one of each while `arm` lets something fail. Whatever that is: nobody hangs, what
// ends well is right, what fails says why, and what has failed alone leaves the rest as it was.
void SurviveOrSayWhy(FakeCuda* cuda, const std::string& way, const std::function<void()>& arm) {
  std::barrier together(2);
  RunRanks({.size = 2, .config = GpuConfig(way), .limit_seconds = 60 * Patience()}, [&](Rank& me) {
    GpuRank mine(&me, cuda, me.rank);
    std::vector<Work> works = OneOfEach(&mine, me.rank);
    const TensorView last = mine.Put(std::vector<float>(10, 1));
    (void)mine.Get<float>(last);  // all are there
    together.arrive_and_wait();
    if (me.rank == 0) arm();
    together.arrive_and_wait();
    for (Work& work : works) {
      work.status = me.engine->Submit(0, work.submission, /*will_wait=*/false, &work.handle);
      if (work.status.ok()) continue;
      me.engine->Abort(work.status);  // as a program does that ends by an exception
      break;
    }
    for (Work& work : works) {
      if (work.handle != nullptr && work.status.ok()) work.status = me.Wait(work.handle);
    }
    together.arrive_and_wait();
    if (me.rank == 0) {
      EXPECT_EQ(FakeCuda::Complaints(), "");
      fake_cuda_reset();
      fake_nccl_reset();
    }
    together.arrive_and_wait();
    for (const Work& work : works) {
      if (work.status.ok() && work.handle != nullptr) {
        if (!mine.Follow(work.handle).ok()) continue;  // lost on its way through the device
        const std::vector<float> got = mine.Get<float>(work.handle->output);
        if (work.handle->pending != nullptr && !work.handle->pending->MakeWait(mine.stream()).ok())
          continue;
        EXPECT_EQ(got, work.expected) << work.name;
      } else {
        EXPECT_GT(work.status.message().size() + (work.handle == nullptr ? 1 : 0), 0u) << work.name;
      }
    }
    if (!me.engine->life().end().ok()) return;
    HandlePtr handle;
    const Status status = mine.Do(mine.Ask(OpKind::kAllreduce, "last", last), &handle);
    if (status.ok()) {
      EXPECT_EQ(mine.Get<float>(handle->output), std::vector<float>(10, 2));
    }
  });
}

class EngineGpuFailures : public ::testing::TestWithParam<const char*> {
 protected:
  EngineGpuFailures() { fake_cuda_set("devices", 4); }
  FakeCuda cuda_;
};
INSTANTIATE_TEST_SUITE_P(, EngineGpuFailures, ::testing::Values("stage", "nccl"),
                         [](const auto& way) { return std::string(way.param); });

TEST_P(EngineGpuFailures, a_call_of_the_driver_that_fails_hangs_nobody) {
  for (const char* symbol :
       {"cuMemAllocFromPoolAsync", "cuMemHostAlloc", "cuEventCreate", "cuEventRecord",
        "cuEventQuery", "cuStreamWaitEvent", "cuStreamCreateWithPriority",
        "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2", "cuMemcpyDtoHAsync_v2",
        "cuMemcpyHtoDAsync_v2", "cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernel",
        "cuStreamQuery"}) {
    for (const int nth : {1, 2, 5, 12}) {
      SCOPED_TRACE(std::string(symbol) + " " + std::to_string(nth));
      const bool memory = std::string(symbol).find("Alloc") != std::string::npos;
      SurviveOrSayWhy(&cuda_, GetParam(),
                      [&] { fake_cuda_fail(symbol, nth, 2, memory ? kOutOfMemory : kUnknown); });
    }
  }
}

TEST(EngineGpuFailure, a_call_of_nccls_that_fails_hangs_nobody) {
  FakeCuda cuda;
  int turn = 0;
  for (const char* symbol :
       {"ncclGetUniqueId", "ncclCommInitRankConfig", "init", "ncclAllReduce", "ncclBroadcast",
        "ncclAllGather", "ncclReduceScatter", "ncclSend", "ncclGroupStart", "ncclGroupEnd",
        "ncclCommGetAsyncError", "operation"}) {
    for (const int nth : {1, 2}) {
      std::array results = {1, 3, 6};
      std::rotate(results.begin(), results.begin() + turn++ % 3, results.end());
      for (const int result : InTier<int>({results[0]}, {results[1], results[2]})) {
        SCOPED_TRACE(std::string(symbol) + " " + std::to_string(nth) + " " +
                     std::to_string(result));
        SurviveOrSayWhy(&cuda, "auto", [&] { fake_nccl_fail(symbol, -1, nth, result); });
      }
    }
  }
  FakeNccl::ExpectLeft(0);
}

// Whoever hears that a batch is lost frees its tensors, and the device is not done with them.
TEST_P(EngineGpuFailures, tensors_of_a_lost_batch_are_not_freed_under_the_device) {
  fake_cuda_set("delay_us", 30000);
  RunRanks({.size = 2, .config = GpuConfig(GetParam()), .shutdown = false}, [&](Rank& me) {
    GpuRank mine(&me, &cuda_, me.rank);
    void* memory = nullptr;
    TensorView x = mine.Put(std::vector<float>(1000, 1));
    ASSERT_TRUE(mine.gpu()->Allocate(x.bytes(), &memory).ok());
    device::EventPtr there;
    ASSERT_TRUE(mine.gpu()->Record(mine.gpu()->stream(), &there).ok());
    ASSERT_TRUE(there->MakeWait(mine.stream()).ok());
    x.data = memory;
    const HandlePtr handle = me.Submit(mine.Ask(OpKind::kAllreduce, "x", x, x));
    const Status status = me.Wait(handle);
    if (status.ok()) {
      if (me.rank == 0) me.engine->Abort(Status::PeerLost(0, "rank 0 failed: a test"));
      while (me.engine->life().end().ok()) usleep(100);
      (void)mine.Follow(handle);
    }
    mine.gpu()->Free(memory, mine.stream());
    me.engine.reset();
  });
}

TEST(DeviceMemory, of_a_stream_that_is_captured_is_freed_in_its_order_and_later) {
  FakeCuda cuda;
  const auto gpu = cuda.Open();
  const UserStream user(gpu);
  std::unique_ptr<engine::DeviceMemory> memory;
  ASSERT_TRUE(engine::DeviceMemory::Allocate(gpu, 4096, &memory).ok());
  ASSERT_TRUE(memory->there()->MakeWait(user.get()).ok());
  memory->UsedBy(user.get());
  {
    const device::Gpu::Current current(*gpu);
    ASSERT_EQ(cuStreamBeginCapture_v2(user.get(), 0), 0);
    memory.reset();
    EXPECT_EQ(fake_cuda_calls("cuMemFreeAsync"), 0) << "the stream may still use it";
    void* graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(user.get(), &graph), 0);
  }
  void* next = nullptr;
  ASSERT_TRUE(gpu->Allocate(64, &next).ok());
  gpu->Free(next, gpu->stream());
  EXPECT_EQ(fake_cuda_calls("cuMemFreeAsync"), 2);
}

// NCCL frees memory when it ends a communicator, and that waits for the whole device: for other
// sets' kernels, too.
TEST(EngineGpuFailure, sets_that_are_under_way_are_ended_together) {
  FakeCuda cuda;
  fake_cuda_set("free_waits", 1);
  fake_nccl_set("memory", 1);
  // The least of three: the machine may stand still for a moment. Ends that wait for one another
  // take all the patience each time.
  Nanos took = kForever;
  for (int i = 0; i < 3 && took >= comm::nccl::kAbortPatience; ++i) {
    std::barrier together(2);
    RunRanks({.size = 2,
              .config = GpuConfig("nccl"),
              .process_sets = {{0, 1}, {0, 1}},
              .shutdown = false},
             [&](Rank& me) {
               GpuRank mine(&me, &cuda, me.rank);
               for (const bool waits : {false, true}) {
                 if (waits && me.rank == 1) fake_cuda_hold(mine.stream(), 1);
                 const TensorView x = mine.Put(std::vector<float>(1000, 1));
                 for (int set = 0; set < 3; ++set) {
                   ASSERT_TRUE(me.Wait(me.Submit(mine.Ask(OpKind::kAllreduce, "x", x), set)).ok());
                 }
               }
               together.arrive_and_wait();
               if (me.rank == 0) {
                 const Nanos begin = MonotonicNow();
                 me.engine->Abort(Status::PeerLost(1, "rank 1 is lost: a test"));
                 took = MonotonicNow() - begin;
               }
               together.arrive_and_wait();
               if (me.rank == 1) fake_cuda_hold(mine.stream(), 0);
               while (me.engine->life().end().ok()) usleep(1000);
               me.engine.reset();
             });
  }
  EXPECT_LT(took, comm::nccl::kAbortPatience);
  fake_nccl_reset();
}

// A set goes while its batch waits on the device for a producer that does not come.
TEST(EngineGpuFailure, what_the_device_does_not_finish_for_a_removed_set_is_said_and_not_freed) {
  FakeCuda cuda;
  RunRanks({.size = 1, .config = GpuConfig("nccl")}, [&](Rank& me) {
    GpuRank mine(&me, &cuda, 0);
    HandlePtr added;
    ASSERT_TRUE(me.Do(AddSet("add", {0}), 0, &added).ok());
    const int set = static_cast<int>(added->number);
    fake_cuda_hold(mine.stream(), 1);
    std::vector<Submission> group;
    for (const char* name : {"x", "y"}) {
      group.push_back(mine.Ask(OpKind::kAllreduce, name, mine.Put(std::vector<float>(1000, 1))));
    }
    std::vector<HandlePtr> handles;
    ASSERT_TRUE(me.engine->SubmitGroup(set, std::move(group), &handles).ok());
    for (const HandlePtr& handle : handles) ASSERT_TRUE(me.Wait(handle).ok());
    const long frees = fake_cuda_calls("cuMemFreeAsync");
    ::testing::internal::CaptureStderr();
    const Status removed = me.Do(RemoveSet("remove", set));
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_TRUE(removed.ok()) << removed.ToString();
    EXPECT_TRUE(Says(said,
                     "the GPU does not finish the work it was given; memory that the work uses "
                     "is not freed"));
    EXPECT_EQ(fake_cuda_calls("cuMemFreeAsync"), frees);
    bool finished = true;
    const Status lost = handles[0]->pending->Finished(&finished);
    EXPECT_EQ(lost.message(), "process set " + std::to_string(set) + " has been removed");
    EXPECT_FALSE(finished);
    fake_cuda_hold(mine.stream(), 0);
    // Its tensors go only when the device, after all, has done with them.
    EXPECT_EQ(mine.Follow(handles[0]).ToString(), lost.ToString());
  });
}

// On devices without memory in the order of streams: frees wait for NCCL, NCCL for another rank,
// and it for nobody here.
TEST(EngineGpuFailure, a_free_that_waits_for_the_device_holds_up_nobody_else) {
  FakeCuda cuda;
  fake_cuda_set("pools", 0);
  fake_cuda_set("free_waits", 1);
  std::barrier together(2);
  RunRanks({.size = 2, .config = GpuConfig("nccl")}, [&](Rank& me) {
    GpuRank mine(&me, &cuda, me.rank);
    const TensorView x = mine.Put(std::vector<float>(1000, 1));
    const TensorView y = mine.Put(std::vector<float>(1000, 1));
    HandlePtr first;
    ASSERT_TRUE(mine.Do(mine.Ask(OpKind::kAllreduce, "first", x), &first).ok());
    EXPECT_EQ(mine.Get<float>(first->output)[0], 2);
    std::unique_ptr<engine::DeviceMemory> result = first->TakeMemory();
    together.arrive_and_wait();
    if (me.rank == 1) fake_cuda_hold(mine.stream(), 1);
    const TensorView late = mine.Put(std::vector<float>(1000, 1));
    const HandlePtr waits = me.Submit(mine.Ask(OpKind::kAllreduce, "late", late, late));
    ASSERT_TRUE(me.Wait(waits).ok());
    std::thread frees([&] {
      if (me.rank == 0) result.reset();
    });
    usleep(20000);
    const HandlePtr next = me.Submit(mine.Ask(OpKind::kAllreduce, "next", y, y));
    EXPECT_TRUE(me.Wait(next).ok());
    together.arrive_and_wait();
    if (me.rank == 1) fake_cuda_hold(mine.stream(), 0);
    frees.join();
    ASSERT_TRUE(mine.Follow(next).ok());
    EXPECT_EQ(mine.Get<float>(y)[0], 2);
  });
}

}  // namespace
}  // namespace hvdlite::testing
