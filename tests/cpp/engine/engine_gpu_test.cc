// Whole engines with tensors on (fake) GPUs, staged through host memory and by NCCL: values,
// memory, joining, failures, the end.
#include <barrier>
#include <random>

#include "fake_gpu/fake_nccl.h"
#include "testing/gpu_rank.h"
#include "testing/says.h"

namespace hvdlite::testing {
namespace {

constexpr int64_t kSmallRounds = 4096;  // bytes: everything takes several rounds

Config Staged(int64_t chunk_bytes = kSmallRounds) {
  Config config = GpuConfig("stage");
  config.gpu_chunk_bytes = chunk_bytes;
  return config;
}

class EngineGpuWays : public ::testing::TestWithParam<const char*> {
 protected:
  EngineGpuWays() { fake_cuda_set("devices", 4); }

  static Config Way(int64_t chunk_bytes = kSmallRounds) {
    Config config = GpuConfig(GetParam());
    config.gpu_chunk_bytes = chunk_bytes;
    return config;
  }
  FakeCuda cuda;
};
INSTANTIATE_TEST_SUITE_P(, EngineGpuWays, ::testing::Values("stage", "nccl"),
                         [](const auto& way) { return std::string(way.param); });

TEST_P(EngineGpuWays, all_kinds_of_operations_give_what_they_give_on_the_host) {
  for (const int hosts : {1, 2}) {
    RunRanks({.size = 3, .config = Way(), .hosts = hosts}, [&](Rank& me) {
      GpuRank mine(&me, &cuda, me.rank);
      const float r = static_cast<float>(me.rank);
      for (const int64_t elements : {0, 1, 1000, 5000}) {
        const std::string n = "." + std::to_string(elements);
        HandlePtr handle;
        const TensorView x = mine.Put(Count(elements, r));
        ASSERT_TRUE(mine.Do(mine.Ask(OpKind::kAllreduce, "sum" + n, x), &handle).ok());
        std::vector<float> sum = mine.Get<float>(handle->output);
        ASSERT_EQ(static_cast<int64_t>(sum.size()), elements);
        for (size_t i = 0; i < sum.size(); ++i) ASSERT_EQ(sum[i], 3 * static_cast<float>(i) + 3);

        Submission average = mine.Ask(OpKind::kAllreduce, "average" + n, x, x);  // in place
        average.request.op = ReduceOp::kAverage;
        average.request.postscale = 2.0;
        ASSERT_TRUE(mine.Do(std::move(average)).ok());
        sum = mine.Get<float>(x);
        for (size_t i = 0; i < sum.size(); ++i) ASSERT_EQ(sum[i], 2 * static_cast<float>(i) + 2);

        Submission told =
            mine.Ask(OpKind::kBroadcast, "told" + n, mine.Put(Count(elements, 10 * r)));
        told.request.root = 1;
        ASSERT_TRUE(mine.Do(std::move(told), &handle).ok());
        EXPECT_EQ(mine.Get<float>(handle->output), Count(elements, 10));

        // Rank 1 has twice as many rows, and rank 2 none.
        const int64_t rows = me.rank == 2 ? 0 : elements * (me.rank + 1);
        ASSERT_TRUE(
            mine.Do(mine.Ask(OpKind::kAllgather, "gathered" + n, mine.Put(Count(rows, r))), &handle)
                .ok());
        std::vector<float> expected = Count(elements, 0);
        const std::vector<float> more = Count(2 * elements, 1);
        expected.insert(expected.end(), more.begin(), more.end());
        const std::vector<float> got = mine.Get<float>(handle->output);
        ASSERT_EQ(got.size(), expected.size());
        for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], expected[i]);

        const TensorView whole = mine.Put(Count(2 * elements, r), {elements, 2});
        ASSERT_TRUE(
            mine.Do(mine.Ask(OpKind::kReducescatter, "scattered" + n, whole), &handle).ok());
        const int64_t part = ShareOfRows(elements, 3, me.rank);
        EXPECT_EQ(handle->output.shape, (Shape{part, 2}));
        int64_t before = 0;
        for (int m = 0; m < me.rank; ++m) before += 2 * ShareOfRows(elements, 3, m);
        sum = mine.Get<float>(handle->output);
        for (size_t i = 0; i < sum.size(); ++i)
          ASSERT_EQ(sum[i], 3 * static_cast<float>(before + static_cast<int64_t>(i)) + 3);

        // Nothing to rank 0, one row to rank 1, the rest to rank 2.
        Submission parts =
            mine.Ask(OpKind::kAlltoall, "parts" + n, mine.Put(Count(elements + 1, 100 * r)));
        parts.request.splits = {0, 1, elements};
        ASSERT_TRUE(mine.Do(std::move(parts), &handle).ok());
        expected.clear();
        for (int from = 0; from < 3 && me.rank > 0; ++from) {
          const std::vector<float> part_of = Count(
              me.rank == 1 ? 1 : elements, 100 * static_cast<float>(from) + (me.rank == 1 ? 0 : 1));
          expected.insert(expected.end(), part_of.begin(), part_of.end());
        }
        EXPECT_EQ(mine.Get<float>(handle->output), expected);
      }
    });
  }
}

TEST_P(EngineGpuWays, adasum_and_every_dtype_that_the_host_knows) {
  RunRanks({.size = 2, .config = Way()}, [&](Rank& me) {
    GpuRank mine(&me, &cuda, me.rank);
    std::mt19937 random(static_cast<uint32_t>(me.rank));
    std::vector<float> values(3000);
    for (float& value : values) value = static_cast<float>(random() % 1000);
    // Of whole numbers, so that dot products are exact. Two tensors, one larger than a round: whole
    // tensors count.
    for (const size_t elements : {size_t{3000}, size_t{7}}) {
      const std::vector<float> some(values.begin(),
                                    values.begin() + static_cast<std::ptrdiff_t>(elements));
      std::vector<float> expected = some;
      Submission on_host =
          Allreduce("host." + std::to_string(elements), some, &expected, ReduceOp::kAdasum);
      ASSERT_TRUE(me.Do(std::move(on_host)).ok());
      const TensorView x = mine.Put(some);
      Submission on_gpu = mine.Ask(OpKind::kAllreduce, "gpu." + std::to_string(elements), x, x);
      on_gpu.request.op = ReduceOp::kAdasum;
      ASSERT_TRUE(mine.Do(std::move(on_gpu)).ok());
      EXPECT_EQ(mine.Get<float>(x), expected);
    }
    const std::vector<int32_t> numbers = {7, -7, 100, 0};
    const TensorView x = mine.Put(numbers);
    Submission scaled = mine.Ask(OpKind::kAllreduce, "numbers", x, x);
    scaled.request.prescale = 0.5;
    ASSERT_TRUE(mine.Do(std::move(scaled)).ok());
    EXPECT_EQ(mine.Get<int32_t>(x), (std::vector<int32_t>{6, -6, 100, 0}));
    Submission doubles =
        mine.Ask(OpKind::kAllreduce, "doubles", mine.Put(std::vector<double>{0.25, 1e300}));
    doubles.request.op = ReduceOp::kMax;
    HandlePtr handle;
    ASSERT_TRUE(mine.Do(std::move(doubles), &handle).ok());
    EXPECT_EQ(mine.Get<double>(handle->output), (std::vector<double>{0.25, 1e300}));
  });
}

// As on the host, where a batch of them may be larger than what is staged at once.
TEST_P(EngineGpuWays, adasum_of_several_tensors_in_one_batch) {
  Config config = Way();
  config.cycle_time = 50;
  RunRanks({.size = 2, .config = config}, [&](Rank& me) {
    GpuRank mine(&me, &cuda, me.rank);
    std::mt19937 random(static_cast<uint32_t>(me.rank));
    std::vector<std::vector<float>> expected;
    std::vector<Submission> group;
    for (const size_t elements : {600, 700, 7, 3000}) {
      std::vector<float> values(elements);
      for (float& value : values) value = static_cast<float>(random() % 1000);
      expected.push_back(values);
      const std::string name = "x" + std::to_string(elements);
      ASSERT_TRUE(
          me.Do(Allreduce("host." + name, values, &expected.back(), ReduceOp::kAdasum)).ok());
      group.push_back(mine.Ask(OpKind::kAllreduce, name, mine.Put(values)));
      group.back().request.op = ReduceOp::kAdasum;
    }
    std::vector<HandlePtr> handles;
    ASSERT_TRUE(me.engine->SubmitGroup(0, std::move(group), &handles).ok());
    for (size_t i = 0; i < handles.size(); ++i) {
      ASSERT_TRUE(me.Wait(handles[i]).ok());
      ASSERT_TRUE(mine.Follow(handles[i]).ok());
      EXPECT_EQ(mine.Get<float>(handles[i]->output), expected[i]);
    }
  });
}

TEST_P(EngineGpuWays, many_operations_under_way_at_once_in_any_order) {
  Config config = Way(1 << 16);
  config.debug_delay_microseconds = 200;
  RunRanks({.size = 3, .config = config}, [&](Rank& me) {
    GpuRank mine(&me, &cuda, me.rank);
    std::mt19937 random(static_cast<uint32_t>(7 + me.rank));
    for (int step = 0; step < 5; ++step) {
      std::vector<int> order(30);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      std::vector<TensorView> views(order.size());
      std::vector<HandlePtr> handles(order.size());
      for (const int i : order) {
        const auto at = static_cast<size_t>(i);
        views[at] = mine.Put(Count(1 + 37 * i, static_cast<float>(step)));
        handles[at] =
            me.Submit(mine.Ask(OpKind::kAllreduce, "g" + std::to_string(i), views[at], views[at]));
      }
      std::shuffle(order.begin(), order.end(), random);
      for (const int i : order) {
        const auto at = static_cast<size_t>(i);
        ASSERT_TRUE(me.Wait(handles[at]).ok());
        ASSERT_TRUE(mine.Follow(handles[at]).ok());
        std::vector<float> expected = Count(1 + 37 * i, static_cast<float>(step));
        for (float& value : expected) value *= 3;
        ASSERT_EQ(mine.Get<float>(views[at]), expected);
      }
    }
  });
}

TEST_P(EngineGpuWays, a_handle_has_landed_when_the_device_has_done_it) {
  RunRanks({.size = 2, .config = Way()}, [&](Rank& me) {
    GpuRank mine(&me, &cuda, me.rank);
    const TensorView x = mine.Put(Count(100, 1));
    const HandlePtr handle = me.Submit(mine.Ask(OpKind::kAllreduce, "x", x, x));
    ASSERT_TRUE(me.Wait(handle).ok());
    bool finished = false;
    ASSERT_TRUE(handle->pending->Wait(Deadline::AfterSeconds(30 * Patience()), &finished).ok());
    EXPECT_TRUE(finished);
  });
}

TEST(EngineGpu, a_producer_that_takes_its_time_holds_up_nobody_else) {
  FakeCuda cuda;
  std::atomic<int> ready{0};
  RunRanks({.size = 2, .config = Staged()}, [&](Rank& me) {
    GpuRank mine(&me, &cuda, me.rank);
    HandlePtr added;
    ASSERT_TRUE(me.Do(AddSet("pair", {0, 1}), 0, &added).ok());
    fake_cuda_hold(mine.stream(), 1);
    const TensorView late = mine.Put(Count(100, 5));
    const HandlePtr handle = me.Submit(mine.Ask(OpKind::kAllreduce, "late", late, late));
    std::vector<float> y(10, 1);
    ASSERT_TRUE(me.Do(Allreduce("y", y, &y), static_cast<int>(added->number)).ok());
    EXPECT_EQ(y[9], 2);
    ++ready;
    while (ready < 2) usleep(100);
    EXPECT_FALSE(handle->done());
    fake_cuda_hold(mine.stream(), 0);
    ASSERT_TRUE(me.Wait(handle).ok());
    ASSERT_TRUE(mine.Follow(handle).ok());
    EXPECT_EQ(mine.Get<float>(late)[0], 10);
  });
}

TEST(EngineGpu, one_rank_uses_one_gpu) {
  FakeCuda cuda;
  RunRanks({.size = 1, .config = Staged()}, [&](Rank& me) {
    GpuRank first(&me, &cuda, 0);
    GpuRank second(&me, &cuda, 1);
    const TensorView x = first.Put(Count(10, 1));
    ASSERT_TRUE(first.Do(first.Ask(OpKind::kAllreduce, "x", x, x)).ok());
    const TensorView y = second.Put(Count(10, 1));
    const Status status = second.Do(second.Ask(OpKind::kAllreduce, "y", y, y));
    EXPECT_TRUE(FailsWith(status, StatusCode::kInvalidArgument,
                          "uses the GPU cuda:0 and was given a tensor on cuda:1"));
    EXPECT_EQ(first.Get<float>(x), Count(10, 1));
  });
}

TEST(EngineGpu, a_tensor_on_the_cpu_and_one_on_a_gpu_do_not_meet) {
  FakeCuda cuda;
  RunRanks({.size = 2, .config = Staged()}, [&](Rank& me) {
    GpuRank mine(&me, &cuda, 0);
    std::vector<float> host(10, 1);
    const TensorView x = mine.Put(host);
    const Status status = me.rank == 0 ? me.Do(Allreduce("x", host, &host))
                                       : mine.Do(mine.Ask(OpKind::kAllreduce, "x", x, x));
    EXPECT_TRUE(FailsWith(status, StatusCode::kMismatch,
                          "rank 0 sent a tensor on the CPU, rank 1 sent a tensor on a GPU"));
  });
}

TEST(EngineGpu,
     without_memory_for_a_gathered_result_the_operation_fails_on_all_and_the_job_goes_on) {
  FakeCuda cuda;
  fake_cuda_set("memory_mb", 64);
  RunRanks({.size = 2, .config = Staged(1 << 20)}, [&](Rank& me) {
    GpuRank mine(&me, &cuda, me.rank);
    const std::vector<float> values(2 << 20, 1);  // 8 MiB
    const TensorView x = mine.Put(values);
    ASSERT_TRUE(mine.Do(mine.Ask(OpKind::kAllreduce, "first", x, x)).ok());
    void* hog = nullptr;
    if (me.rank == 1) {
      ASSERT_TRUE(mine.gpu()->Allocate(44 << 20, &hog).ok());
    }
    const Status status = mine.Do(mine.Ask(OpKind::kAllgather, "gathered", x));
    EXPECT_TRUE(FailsWith(status, StatusCode::kIo, "rank 1 cannot take part"));
    if (hog != nullptr) {
      mine.gpu()->Free(hog, mine.gpu()->stream());
      const device::Gpu::Current current(*mine.gpu());
      ASSERT_EQ(mine.gpu()->driver().StreamSynchronize(mine.gpu()->stream()), 0);
    }
    HandlePtr handle;
    ASSERT_TRUE(mine.Do(mine.Ask(OpKind::kAllgather, "gathered", x), &handle).ok());
    EXPECT_EQ(mine.Get<float>(handle->output), std::vector<float>(4 << 20, 2));
  });
}

TEST_P(EngineGpuWays, a_rank_that_has_joined_gives_zeros) {
  RunRanks({.size = 3, .config = Way()}, [&](Rank& me) {
    GpuRank mine(&me, &cuda, me.rank);
    // Rank 2 has never used its GPU, rank 1 has.
    if (me.rank < 2) {
      HandlePtr handle;
      for (const char* name : {"a", "b"}) {
        if (me.rank == 1 && name[0] == 'b') break;
        ASSERT_TRUE(
            mine.Do(mine.Ask(OpKind::kAllreduce, name, mine.Put(Count(3000, 1))), &handle).ok());
        std::vector<float> expected = Count(3000, 1);
        if (name[0] == 'a') {
          for (float& value : expected) value *= 2;
        }
        EXPECT_EQ(mine.Get<float>(handle->output), expected);
      }
    }
    ASSERT_TRUE(me.Do(Join()).ok());
    // Now all have one, or have used the CPU only.
    const TensorView x = mine.Put(Count(10, 1));
    ASSERT_TRUE(mine.Do(mine.Ask(OpKind::kAllreduce, "c", x, x)).ok());
    EXPECT_EQ(mine.Get<float>(x)[0], 3);
    const std::string why = me.engine->Explain(0);
    EXPECT_TRUE(Says(why, std::string("Tensors on GPUs: ") + GetParam()));
  });
}

// NCCL goes on listening for each id that it has made.
TEST(EngineGpu, an_id_of_nccls_is_made_once_however_long_a_rank_has_no_gpu) {
  FakeCuda cuda;
  fake_nccl_reset();
  RunRanks({.size = 2, .config = GpuConfig("auto")}, [&](Rank& me) {
    GpuRank mine(&me, &cuda, me.rank);
    if (me.rank == 0) {
      for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE(mine.Do(mine.Ask(OpKind::kAllreduce, "x", mine.Put(Count(30, 1)))).ok());
      }
      EXPECT_EQ(fake_nccl_calls("ncclGetUniqueId"), 1);
    }
    ASSERT_TRUE(me.Do(Join()).ok());
    const TensorView x = mine.Put(Count(10, 1));
    ASSERT_TRUE(mine.Do(mine.Ask(OpKind::kAllreduce, "c", x, x)).ok());
    EXPECT_EQ(mine.Get<float>(x)[0], 2);
    EXPECT_EQ(fake_nccl_calls("ncclGetUniqueId"), 1);
  });
}

// A rank whose device takes its time, and so holds its engine's turn, has a beating heart.
TEST(EngineGpu, a_set_that_is_removed_while_its_device_is_busy_costs_nobody_the_job) {
  FakeCuda cuda;
  fake_cuda_set("devices", 4);
  Config config = GpuConfig("nccl");
  config.heartbeat_seconds = 5;  // the device is waited for three times, two seconds each
  std::barrier together(3);
  RunRanks({.size = 3, .config = config, .process_sets = {{0, 1}}}, [&](Rank& me) {
    GpuRank mine(&me, &cuda, me.rank);
    if (me.rank == 1) fake_cuda_hold(mine.stream(), 1);
    const TensorView x = mine.Put(Count(1000, 1));
    if (me.rank < 2) {
      ASSERT_TRUE(me.Wait(me.Submit(mine.Ask(OpKind::kAllreduce, "x", x, x), 1)).ok());
    }
    ASSERT_TRUE(me.Do(RemoveSet("remove", 1)).ok());
    EXPECT_TRUE(me.engine->life().end().ok()) << me.engine->life().end().ToString();
    together.arrive_and_wait();
    if (me.rank == 1) fake_cuda_hold(mine.stream(), 0);
  });
}

TEST_P(EngineGpuWays, process_sets_come_and_go) {
  RunRanks({.size = 3, .config = Way()}, [&](Rank& me) {
    GpuRank mine(&me, &cuda, me.rank);
    for (int i = 0; i < 3; ++i) {
      HandlePtr added;
      ASSERT_TRUE(me.Do(AddSet("add", {0, 2}), 0, &added).ok());
      const int set = static_cast<int>(added->number);
      const TensorView x = mine.Put(Count(2000, 1));
      if (me.rank != 1) {
        ASSERT_TRUE(mine.Do(mine.Ask(OpKind::kAllreduce, "x", x, x), nullptr, set).ok());
      }
      ASSERT_TRUE(me.Do(RemoveSet("remove", set)).ok());
      if (me.rank != 1) {
        EXPECT_EQ(mine.Get<float>(x)[1], 4);
      }
    }
  });
}

TEST_P(EngineGpuWays, handles_that_nobody_waits_for_end_with_the_job) {
  std::barrier together(2);
  Departure departure;
  RunRanks({.size = 2, .config = Way()}, [&](Rank& me) {
    GpuRank mine(&me, &cuda, me.rank);
    std::vector<HandlePtr> handles;
    for (int i = 0; i < 10; ++i) {
      const TensorView x = mine.Put(Count(5000, 1));
      handles.push_back(me.Submit(mine.Ask(OpKind::kAllreduce, "x" + std::to_string(i), x, x)));
    }
    together.arrive_and_wait();  // after the first one's grace nobody may submit any more
    departure.Begin();
    ASSERT_TRUE(me.engine->Shutdown(Deadline::AfterSeconds(30 * Patience())).ok());
    for (const HandlePtr& handle : handles) {
      EXPECT_TRUE(handle->done());
      bool finished = false;
      if (handle->status().ok()) {
        EXPECT_TRUE(handle->pending->Finished(&finished).ok() || departure.GraceIsOver());
      }
    }
    me.engine.reset();  // before the memory goes
  });
}

TEST_P(EngineGpuWays, sets_that_begin_in_different_orders_do_not_wait_for_one_another) {
  RunRanks({.size = 3, .config = Way(), .process_sets = {{0, 1}, {1, 2}, {0, 1, 2}}},
           [&](Rank& me) {
             GpuRank mine(&me, &cuda, me.rank);
             std::mt19937 random(static_cast<uint32_t>(me.rank));
             const std::vector<std::vector<int>> members = {{0, 1, 2}, {0, 1}, {1, 2}, {0, 1, 2}};
             for (int step = 0; step < 10; ++step) {
               std::vector<int> order = {0, 1, 2, 3};
               std::shuffle(order.begin(), order.end(), random);
               std::vector<std::pair<HandlePtr, float>> under_way;
               for (const int set : order) {
                 const std::vector<int>& in = members[static_cast<size_t>(set)];
                 if (std::count(in.begin(), in.end(), me.rank) == 0) continue;
                 const TensorView x = mine.Put(Count(3000, 1));
                 under_way.emplace_back(me.Submit(mine.Ask(OpKind::kAllreduce, "x", x), set),
                                        static_cast<float>(in.size()));
               }
               for (const auto& [handle, count] : under_way) {
                 ASSERT_TRUE(me.Wait(handle).ok());
                 ASSERT_TRUE(mine.Follow(handle).ok());
                 ASSERT_EQ(mine.Get<float>(handle->output)[1], 2 * count);
               }
             }
           });
}

TEST(EngineGpu, nccl_that_is_demanded_and_missing_on_a_rank_fails_the_operation_on_all) {
  FakeCuda cuda;
  Config config = GpuConfig("nccl");
  config.nccl_library = "libnccl-that-is-not-there.so";
  RunRanks({.size = 2, .config = config}, [&](Rank& me) {
    GpuRank mine(&me, &cuda, me.rank);
    for (int i = 0; i < 2; ++i) {
      const TensorView x = mine.Put(Count(10, 1));
      const Status status = mine.Do(mine.Ask(OpKind::kAllreduce, "x", x, x));
      EXPECT_TRUE(FailsWith(status, StatusCode::kInvalidArgument,
                            "HVDLITE_GPU_OPERATIONS=nccl, but rank 0 has no NCCL"));
    }
    std::vector<float> y(10, 1);
    EXPECT_TRUE(me.Do(Allreduce("y", y, &y)).ok());
  });
}

TEST(EngineGpu, a_device_that_breaks_ends_the_job_with_its_words) {
  FakeCuda cuda;
  std::atomic<int> over{0};
  std::barrier together(2);
  RunRanks({.size = 2, .config = Staged(), .shutdown = false}, [&](Rank& me) {
    GpuRank mine(&me, &cuda, me.rank);
    const TensorView x = mine.Put(Count(5000, 1));
    ASSERT_TRUE(mine.Do(mine.Ask(OpKind::kAllreduce, "x", x, x)).ok());
    // Not by the engine: whoever is still on its way out would see it fail.
    together.arrive_and_wait();
    if (me.rank == 1) fake_cuda_break(1, 700);
    HandlePtr handle;
    Status status = me.engine->Submit(0, mine.Ask(OpKind::kAllreduce, "y", x, x), false, &handle);
    if (!status.ok()) {
      me.engine->Abort(status);  // as a program does that ends by an exception
    } else {
      status = me.Wait(handle);
    }
    EXPECT_TRUE(FailsWith(status, StatusCode::kIo, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    (void)me.engine->Shutdown(Deadline::AfterSeconds(1));
    me.engine.reset();
    ++over;
    while (over < 2) usleep(100);
    if (me.rank == 1) fake_cuda_reset();  // for what the test itself gives back
  });
}

}  // namespace
}  // namespace hvdlite::testing
