// Disagreement, join, groups, names and the cache, through whole engines.
#include <atomic>
#include <random>

#include "testing/ranks.h"
#include "testing/says.h"

namespace hvdlite::testing {
namespace {

class EngineVerdict : public ::testing::TestWithParam<int> {
 protected:
  RanksOptions Options(int size = 3) const { return {.size = size, .hosts = GetParam()}; }
};

TEST_P(EngineVerdict,
       every_kind_of_disagreement_is_the_same_error_everywhere_and_the_engine_goes_on) {
  struct Case {
    const char* name;
    std::function<void(int rank, Request*)> change;
  };
  const std::vector<Case> cases = {
      {"shape", [](int rank, Request* r) { r->shape = {10, rank == 2 ? 2 : 1}; }},
      {"dimensions", [](int rank, Request* r) { r->shape = rank == 0 ? Shape{20} : Shape{10, 2}; }},
      {"dtype",
       [](int rank, Request* r) { r->dtype = rank == 1 ? DType::kInt32 : DType::kFloat32; }},
      {"kind",
       [](int rank, Request* r) { r->kind = rank == 1 ? OpKind::kBroadcast : OpKind::kAllreduce; }},
      {"op", [](int rank, Request* r) { r->op = rank == 0 ? ReduceOp::kMax : ReduceOp::kSum; }},
      {"scale", [](int rank, Request* r) { r->prescale = rank == 0 ? 0.5 : 1; }},
  };
  std::mutex mutex;
  std::map<std::string, std::string> said;
  RunRanks(Options(), [&](Rank& me) {
    for (int round = 0; round < 3; ++round) {
      for (const Case& c : cases) {
        std::vector<float> x(20, 1);
        // Agree first, so that the disagreement meets a slot.
        if (round == 1) {
          ASSERT_TRUE(me.Do(Allreduce(c.name, x, &x)).ok());
        }
        Submission s = Allreduce(c.name, x, &x);
        c.change(me.rank, &s.request);
        const Status status = me.Do(std::move(s));
        ASSERT_EQ(status.code(), StatusCode::kMismatch) << c.name << ": " << status.ToString();
        {
          std::lock_guard<std::mutex> lock(mutex);
          const auto [known, fresh] =
              said.try_emplace(c.name + std::to_string(round), status.message());
          EXPECT_EQ(known->second, status.message());
        }
        x.assign(20, 1);
        ASSERT_TRUE(me.Do(Allreduce("after", x, &x)).ok());
        ASSERT_EQ(x, std::vector<float>(20, 3.0f));
      }
    }
  });
  EXPECT_EQ(said["shape0"],
            "allreduce 'shape': ranks 0 and 1 sent shape [10, 1], rank 2 sent shape [10, 2]. All "
            "ranks must pass the "
            "same shape; use allgather for differing first dimensions.");
  EXPECT_EQ(said["dtype0"],
            "allreduce 'dtype': ranks 0 and 2 sent dtype float32, rank 1 sent dtype int32. All "
            "ranks must pass the same "
            "dtype; cast before the call.");
}

TEST_P(EngineVerdict, a_broadcast_whose_roots_differ) {
  RunRanks(Options(), [](Rank& me) {
    std::vector<float> x(20, 1);
    const Status status = me.Do(Broadcast("b", &x, me.rank == 0 ? 1 : 0));
    EXPECT_EQ(status.code(), StatusCode::kMismatch);
    EXPECT_EQ(status.message(),
              "broadcast 'b': rank 0 named root 1, ranks 1 and 2 named root 0. All ranks must name "
              "the same root_rank.");
    ASSERT_TRUE(me.Do(Broadcast("b", &x, 2)).ok());
  });
}

TEST_P(EngineVerdict, joined_ranks_contribute_zeros_and_learn_who_was_last) {
  RunRanks(Options(), [](Rank& me) {
    for (int epoch = 0; epoch < 3; ++epoch) {
      // Rank r has r + 1 batches; the last to run out is rank 2.
      for (int batch = 0; batch <= me.rank; ++batch) {
        std::vector<float> x(5000, 1);
        ASSERT_TRUE(me.Do(Allreduce("x", x, &x)).ok());
        ASSERT_EQ(x, std::vector<float>(5000, static_cast<float>(3 - batch))) << me.rank;
        HandlePtr handle;
        ASSERT_TRUE(me.Do(Allgather("g", std::vector<int64_t>(2, me.rank)), 0, &handle).ok());
        std::vector<int64_t> expected;
        for (int r = batch; r < 3; ++r) expected.insert(expected.end(), 2, r);
        ASSERT_EQ(Output<int64_t>(handle), expected) << "epoch " << epoch << " batch " << batch;
        std::vector<float> b(10, static_cast<float>(me.rank));
        ASSERT_TRUE(me.Do(Broadcast("b", &b, 2)).ok());
        ASSERT_EQ(b, std::vector<float>(10, 2.0f));
        ASSERT_TRUE(me.Do(Barrier()).ok());
      }
      HandlePtr joined;
      ASSERT_TRUE(me.Do(Join(), 0, &joined).ok());
      ASSERT_EQ(joined->number, 2);
    }
  });
}

TEST_P(EngineVerdict, what_a_joined_rank_makes_impossible_is_an_error_for_the_others) {
  std::atomic<bool> refused_once{false};  // before the others come, and the join may end
  RunRanks(Options(), [&refused_once](Rank& me) {
    if (me.rank != 1) {
      while (!refused_once) usleep(100);
      std::vector<float> x(12, 1);
      HandlePtr handle;
      EXPECT_EQ(me.Do(Alltoall("a", x, {4, 4, 4}), 0, &handle).code(), StatusCode::kMismatch);
      EXPECT_EQ(me.Do(Reducescatter("r", x), 0, &handle).code(), StatusCode::kMismatch);
      const Status root = me.Do(Broadcast("b", &x, 1));
      EXPECT_TRUE(
          FailsWith(root, StatusCode::kMismatch, "rank 1 is the root but has called join()"));
      ASSERT_TRUE(me.Do(Allreduce("x", x, &x)).ok());
    }
    HandlePtr joined;
    const HandlePtr handle = me.Submit(Join());
    std::vector<float> y(1, 1);
    HandlePtr refused;
    if (me.rank == 1) {
      EXPECT_EQ(me.engine->Submit(0, Allreduce("y", y, &y), true, &refused).code(),
                StatusCode::kInvalidArgument);
      refused_once = true;
    }
    ASSERT_TRUE(me.Wait(handle).ok());
    ASSERT_NE(handle->number, 1);
  });
}

TEST_P(EngineVerdict, a_rank_joins_while_operations_are_pending) {
  RunRanks(Options(), [](Rank& me) {
    std::vector<std::vector<float>> x(20, std::vector<float>(100, 1));
    std::vector<HandlePtr> handles;
    if (me.rank != 0) {
      for (size_t i = 0; i < x.size(); ++i)
        handles.push_back(me.Submit(Allreduce("x" + std::to_string(i), x[i], &x[i])));
    } else {
      usleep(30000);
    }
    handles.push_back(me.Submit(Join()));
    for (const HandlePtr& handle : handles) ASSERT_TRUE(me.Wait(handle).ok());
    if (me.rank != 0) {
      ASSERT_EQ(x[7], std::vector<float>(100, 2.0f));
    }
  });
}

std::vector<Submission> Group(const std::string& name, uint64_t id,
                              std::vector<std::vector<float>>* x) {
  std::vector<Submission> group;
  for (size_t i = 0; i < x->size(); ++i) {
    group.push_back(Allreduce(name + std::to_string(i), (*x)[i], &(*x)[i]));
    group.back().request.group = id;
    group.back().request.group_size = static_cast<uint32_t>(x->size());
  }
  return group;
}

TEST_P(EngineVerdict, groups_are_ready_and_fail_together) {
  RunRanks(Options(), [](Rank& me) {
    for (int round = 0; round < 4; ++round) {
      std::vector<std::vector<float>> x(5, std::vector<float>(100, 1));
      std::vector<Submission> group = Group("g", 99, &x);
      const bool wrong = round == 2;
      if (wrong && me.rank == 1) group[3].request.shape = {50, 2};
      std::vector<HandlePtr> handles;
      ASSERT_TRUE(me.engine->SubmitGroup(0, std::move(group), &handles).ok());
      ASSERT_EQ(handles.size(), 5u);
      for (const HandlePtr& handle : handles) {
        const Status status = me.Wait(handle);
        ASSERT_EQ(status.code(), wrong ? StatusCode::kMismatch : StatusCode::kOk)
            << status.ToString();
        if (wrong) {
          ASSERT_TRUE(Says(status, "'g3'"));
        }
      }
      if (!wrong) {
        ASSERT_EQ(x[4], std::vector<float>(100, 3.0f));
      }
    }
  });
}

TEST_P(EngineVerdict, a_group_of_other_numbers_of_tensors_fails_everywhere) {
  RunRanks(Options(), [](Rank& me) {
    for (int round = 0; round < 4; ++round) {
      const bool wrong = round % 2 == 1;  // once by slots, once anew
      const size_t count = wrong && me.rank == 1 ? 3 : 2;
      std::vector<std::vector<float>> x(count, std::vector<float>(10, 1));
      std::vector<HandlePtr> handles;
      ASSERT_TRUE(
          me.engine->SubmitGroup(0, Group("of" + std::to_string(count) + "_", 99, &x), &handles)
              .ok());
      for (const HandlePtr& handle : handles) {
        const Status status = me.Wait(handle);
        ASSERT_EQ(status.code(), wrong ? StatusCode::kMismatch : StatusCode::kOk)
            << status.ToString();
        if (!wrong) continue;
        ASSERT_TRUE(Says(
            status, "ranks 0 and 2 put it into a group of 2, rank 1 put it into a group of 3"));
      }
    }
  });
}

TEST_P(EngineVerdict, a_group_with_a_name_twice_or_one_that_is_outstanding_is_refused_whole) {
  RunRanks(Options(), [](Rank& me) {
    std::vector<std::vector<float>> x(3, std::vector<float>(10, 1));
    std::vector<Submission> group = Group("g", 7, &x);
    group[2].request.name = "g0";
    std::vector<HandlePtr> handles;
    EXPECT_EQ(me.engine->SubmitGroup(0, std::move(group), &handles).code(),
              StatusCode::kDuplicateName);
    EXPECT_TRUE(handles.empty());
    // Nothing of it was left behind: the same names are free.
    ASSERT_TRUE(me.engine->SubmitGroup(0, Group("g", 7, &x), &handles).ok());
    for (const HandlePtr& handle : handles) ASSERT_TRUE(me.Wait(handle).ok());
    ASSERT_EQ(x[0], std::vector<float>(10, 3.0f));
  });
}

TEST_P(EngineVerdict, a_group_of_what_cannot_be_grouped_is_refused) {
  RunRanks(Options(), [](Rank& me) {
    std::vector<std::vector<float>> x(2, std::vector<float>(10, 1));
    std::vector<HandlePtr> handles;
    for (const OpKind kind : {OpKind::kAlltoall, OpKind::kBarrier, OpKind::kJoin}) {
      std::vector<Submission> group = Group("g", 7, &x);
      group[1].request.kind = kind;
      const Status status = me.engine->SubmitGroup(0, std::move(group), &handles);
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
      EXPECT_EQ(status.message(), std::string(Name(kind)) + " cannot be part of a group");
    }
  });
}

TEST_P(EngineVerdict, a_second_operation_of_the_same_name_fails_alone) {
  std::atomic<int> trying{2};  // the first is outstanding until the last rank asks for it, too
  RunRanks(Options(), [&trying](Rank& me) {
    std::vector<float> x(10, 1), y(10, 1);
    while (me.rank == 2 && trying > 0) usleep(100);
    const HandlePtr first = me.Submit(Allreduce("x", x, &x));
    HandlePtr second;
    if (me.rank != 2) {
      const Status status = me.engine->Submit(0, Allreduce("x", y, &y), true, &second);
      EXPECT_EQ(status.code(), StatusCode::kDuplicateName);
      EXPECT_EQ(status.message(),
                "Duplicate tensor name: allreduce 'x' is still outstanding on this rank. Wait for "
                "it with synchronize(), or "
                "give this one another name. (The first operation is not affected.)");
      --trying;
    }
    ASSERT_TRUE(me.Wait(first).ok());
    ASSERT_EQ(x, std::vector<float>(10, 3.0f));
  });
}

TEST_P(EngineVerdict, a_tiny_cache_forgets_and_learns_all_the_time) {
  RanksOptions options = Options();
  options.config.cache_capacity = 4;
  options.limit_seconds = 120;
  RunRanks(options, [](Rank& me) {
    std::mt19937 random(static_cast<uint32_t>(me.rank));
    for (int step = 0; step < 40; ++step) {
      std::vector<std::vector<int64_t>> x;
      for (size_t i = 0; i < 12; ++i) x.emplace_back(1 + i * 10, static_cast<int64_t>(i));
      std::vector<int> order(12);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      std::vector<HandlePtr> handles;
      for (int i : order) {
        // A few stay, most come and go: slots are evicted while their numbers are on the way.
        const std::string name =
            i < 3 ? "stays" + std::to_string(i) : "goes" + std::to_string((step * 7 + i) % 17);
        // The same name twice in a step would be outstanding twice.
        if (i >= 3 && step * 7 % 17 + i >= 17 + 12) continue;
        std::vector<int64_t>& mine = x[static_cast<size_t>(i)];
        handles.push_back(me.Submit(Allreduce(name, mine, &mine)));
        if (random() % 8 == 0) usleep(random() % 400);
      }
      for (const HandlePtr& handle : handles) {
        const Status status = me.Wait(handle);
        ASSERT_TRUE(status.ok()) << status.ToString();
      }
      ASSERT_EQ(x[2], std::vector<int64_t>(21, 6));
    }
  });
}

TEST_P(EngineVerdict, no_cache_and_no_fusion_work_too) {
  RanksOptions options = Options();
  options.config.cache_capacity = 0;
  options.config.fusion_threshold = 0;
  RunRanks(options, [](Rank& me) {
    for (int step = 0; step < 10; ++step) {
      std::vector<std::vector<int64_t>> x(20, std::vector<int64_t>(10, 1));
      std::vector<HandlePtr> handles;
      for (size_t i = 0; i < x.size(); ++i)
        handles.push_back(me.Submit(Allreduce("x" + std::to_string(i), x[i], &x[i])));
      for (const HandlePtr& handle : handles) ASSERT_TRUE(me.Wait(handle).ok());
      for (const auto& each : x) ASSERT_EQ(each, std::vector<int64_t>(10, 3));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Hosts, EngineVerdict, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace hvdlite::testing
