// Whole engines with batches on (fake) GPUs: what a batch waits for, and batches that go by hosts.
#include <chrono>
#include <thread>

#include "engine/list.h"
#include "testing/fake_nccl.h"
#include "testing/gpu_rank.h"
#include "testing/report.h"
#include "testing/says.h"

namespace hvdlite::testing {
namespace {

TEST(EngineGpuBatch, waits_for_each_producer_once_however_many_tensors_it_has_made) {
  FakeCuda cuda;
  Config config = GpuConfig("nccl");
  config.cycle_time = 50;  // all of a step in one batch
  RunRanks({.size = 1, .config = config}, [&](Rank& me) {
    GpuRank mine(&me, &cuda, 0);
    const TensorView first = mine.Put(Count(10, 1));
    ASSERT_TRUE(mine.Do(mine.Ask(OpKind::kAllreduce, "first", first, first)).ok());
    std::vector<TensorView> tensors;
    std::vector<Submission> group;
    for (int i = 0; i < 50; ++i) {
      tensors.push_back(mine.Put(Count(10 + i, static_cast<float>(i))));
      group.push_back(mine.Ask(OpKind::kAllreduce, "x" + std::to_string(i), tensors.back()));
    }
    const long recorded = fake_cuda_calls("cuEventRecord");
    const long waited = fake_cuda_calls("cuStreamWaitEvent");
    std::vector<HandlePtr> handles;
    ASSERT_TRUE(me.engine->SubmitGroup(0, std::move(group), &handles).ok());
    for (const HandlePtr& handle : handles) ASSERT_TRUE(me.Wait(handle).ok());
    // The producer's once; each result's memory; and after the batch.
    EXPECT_EQ(fake_cuda_calls("cuEventRecord") - recorded, 1 + 50 + 1);
    // The producer's stream, and the one where results' memory comes from.
    EXPECT_EQ(fake_cuda_calls("cuStreamWaitEvent") - waited, 2);
    // A stream that follows one handle follows all of the batch.
    for (const HandlePtr& handle : handles) ASSERT_TRUE(mine.Follow(handle).ok());
    EXPECT_EQ(fake_cuda_calls("cuStreamWaitEvent") - waited, 2 + 1);
    const UserStream other(mine.gpu());
    for (const device::Stream stream : {other.get(), mine.stream()})
      ASSERT_TRUE(handles[0]->pending->MakeWait(stream).ok());
    EXPECT_EQ(fake_cuda_calls("cuStreamWaitEvent") - waited, 2 + 3);
    for (size_t i = 0; i < handles.size(); ++i) {
      EXPECT_EQ(mine.Get<float>(handles[i]->output),
                Count(10 + static_cast<int64_t>(i), static_cast<float>(i)));
    }
  });
}

TEST(EngineGpuBatch, a_list_waits_for_its_producers_and_is_followed_once) {
  FakeCuda cuda;
  RunRanks({.size = 2, .config = GpuConfig("nccl")}, [&](Rank& me) {
    GpuRank mine(&me, &cuda, me.rank);
    const UserStream other(mine.gpu());
    for (int round = 0; round < 3; ++round) {
      Submission list = mine.Ask(OpKind::kAllreduce, "grouped_allreduce.g", mine.Put(Count(1, 0)));
      list.request.group = 7;
      list.other_producers = {other.get()};
      std::vector<TensorView> tensors;
      for (int i = 0; i < 50; ++i) {
        tensors.push_back(mine.Put(Count(10 + i, static_cast<float>(me.rank))));
        engine::AddToList(tensors.back().shape.data(), 1, &list.request);
        list.list.push_back({tensors.back().data, tensors.back().data});
      }
      list.request.shape = list.input.shape = {engine::ElementsOf(list.request)};
      list.output = list.input;
      HandlePtr handle;
      ASSERT_TRUE(mine.Do(std::move(list), &handle).ok());
      for (const TensorView& tensor : tensors) {
        std::vector<float> sum = Count(tensor.elements(), 0);
        for (float& value : sum) value = 2 * value + 1;
        ASSERT_EQ(mine.Get<float>(tensor), sum);
      }
    }
  });
}

TEST(EngineGpuBatch, gives_an_empty_tensor_a_result_once) {
  FakeCuda cuda;
  RunRanks({.size = 1, .config = GpuConfig("nccl")}, [&](Rank& me) {
    GpuRank mine(&me, &cuda, 0);
    ASSERT_TRUE(mine.Do(mine.Ask(OpKind::kAllreduce, "first", mine.Put(Count(10, 1)))).ok());
    const TensorView empty = mine.Put(Count(0, 1));
    const long recorded = fake_cuda_calls("cuEventRecord");
    HandlePtr handle;
    ASSERT_TRUE(mine.Do(mine.Ask(OpKind::kAllreduce, "empty", empty), &handle).ok());
    EXPECT_EQ(handle->output.elements(), 0);
    // The producer's, the result's, and after the batch.
    EXPECT_EQ(fake_cuda_calls("cuEventRecord") - recorded, 3);
  });
}

// While the producers' stream is behind, what comes next joins the batch, until the stream is there
// or a thread waits.
TEST(EngineGpuBatch, waits_for_more_while_the_device_is_behind) {
  FakeCuda cuda;
  Config config = GpuConfig("nccl");
  config.cycle_time = 60'000;  // no wait of this test ends by time
  RunRanks({.size = 1, .config = config}, [&](Rank& me) {
    GpuRank mine(&me, &cuda, 0);
    const TensorView x = mine.Put(Count(10, 1));
    ASSERT_TRUE(mine.Do(mine.Ask(OpKind::kAllreduce, "first", x, x)).ok());
    for (const bool waits : {false, true}) {
      const int64_t batches = NumberIn(me.engine->Metrics(), "batches");
      fake_cuda_hold(mine.stream(), 1);
      std::vector<HandlePtr> handles;
      for (const char* name : {"a", "b"}) {
        handles.push_back(me.Submit(mine.Ask(OpKind::kAllreduce, name, x, x)));
        // Long enough for the background thread, which would begin a batch.
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        EXPECT_FALSE(handles.back()->done());
      }
      if (waits) {  // and does not wait for the stream
        EXPECT_TRUE(me.engine->Wait(*handles[0], 20 * kSecond));
      }
      fake_cuda_hold(mine.stream(), 0);
      for (const HandlePtr& handle : handles) {
        while (!waits && !handle->done()) std::this_thread::yield();
        ASSERT_TRUE(me.Wait(handle).ok());
        ASSERT_TRUE(mine.Follow(handle).ok());
      }
      EXPECT_EQ(NumberIn(me.engine->Metrics(), "batches") - batches, 1);
    }
  });
}

// Four ranks on two hosts, dealt out in turns.
TEST(EngineGpuBatch, goes_by_hosts_where_that_is_asked_for) {
  for (const bool torus : {false, true}) {
    FakeCuda cuda;
    FakeNccl nccl;
    fake_cuda_set("devices", 4);
    Config config = GpuConfig("nccl");
    config.torus_allreduce = torus;
    config.hierarchical_allreduce = torus ? "auto" : "on";
    RunRanks({.size = 4, .config = config, .process_sets = {{0, 1}}, .hosts = 2}, [&](Rank& me) {
      GpuRank mine(&me, &cuda, me.rank);
      const float r = static_cast<float>(me.rank);
      for (const int64_t elements : {0, 1, 3, 1000, 5003}) {
        const std::string n = "." + std::to_string(elements);
        std::vector<HandlePtr> handles;
        for (int i = 0; i < 3; ++i) {
          Submission average = mine.Ask(OpKind::kAllreduce, "x" + std::to_string(i) + n,
                                        mine.Put(Count(elements, r)));
          average.request.op = ReduceOp::kAverage;
          average.request.prescale = 2.0;
          handles.push_back(me.Submit(std::move(average)));
        }
        for (const HandlePtr& handle : handles) {
          ASSERT_TRUE(me.Wait(handle).ok());
          ASSERT_TRUE(mine.Follow(handle).ok());
          std::vector<float> expected = Count(elements, 1.5);
          for (float& value : expected) value *= 2;
          EXPECT_EQ(mine.Get<float>(handle->output), expected);
        }
      }
      EXPECT_TRUE(Says(me.engine->Explain(0), "allreduce by hosts: inside each of 2 hosts"));
      if (me.rank < 2) {
        HandlePtr handle;
        ASSERT_TRUE(
            mine.Do(mine.Ask(OpKind::kAllreduce, "pair", mine.Put(Count(10, 1))), &handle, 1).ok());
        EXPECT_EQ(mine.Get<float>(handle->output)[0], 2);
        EXPECT_TRUE(
            Says(me.engine->Explain(1),
                 "not by hosts, although that was requested: there is one member on each host"));
      }
      ASSERT_TRUE(me.Do(Barrier("end")).ok());
    });
    EXPECT_GT(fake_nccl_calls("ncclReduceScatter"), 0);
  }
}

TEST(EngineGpuBatch, goes_flat_where_nobody_asks_for_anything_else) {
  FakeCuda cuda;
  FakeNccl nccl;
  fake_cuda_set("devices", 4);
  RunRanks({.size = 4, .config = GpuConfig("nccl"), .hosts = 2}, [&](Rank& me) {
    GpuRank mine(&me, &cuda, me.rank);
    const TensorView x = mine.Put(Count(1000, 1));
    ASSERT_TRUE(mine.Do(mine.Ask(OpKind::kAllreduce, "x", x, x)).ok());
    EXPECT_EQ(mine.Get<float>(x)[0], 4);
    EXPECT_FALSE(Says(me.engine->Explain(0), "by hosts"));
  });
  EXPECT_EQ(fake_nccl_calls("ncclReduceScatter"), 0);
}

// The one that makes an id, and cannot, has no NCCL that works: all stage.
TEST(EngineGpuBatch, is_staged_where_nccl_does_not_even_begin) {
  FakeCuda cuda;
  FakeNccl nccl;
  fake_nccl_fail("ncclGetUniqueId", -1, 1, 2);
  RunRanks({.size = 2, .config = GpuConfig("auto")}, [&](Rank& me) {
    GpuRank mine(&me, &cuda, me.rank);
    const TensorView x = mine.Put(Count(1000, 1));
    ASSERT_TRUE(mine.Do(mine.Ask(OpKind::kAllreduce, "x", x, x)).ok());
    EXPECT_EQ(mine.Get<float>(x)[0], 2);
    EXPECT_TRUE(Says(me.engine->Explain(0),
                     "rank 0 has no NCCL: NCCL failed in making an id for a communicator"));
  });
}

}  // namespace
}  // namespace hvdlite::testing
