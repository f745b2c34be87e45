// Every collective of ops.def through whole engines, ranks as threads.
#include "engine/job.h"
#include "testing/ranks.h"

namespace hvdlite::testing {
namespace {

class EngineOps : public ::testing::TestWithParam<Job> {
 protected:
  RanksOptions Options() const {
    return {.size = GetParam().ranks, .hosts = GetParam().hosts, .mpi = GetParam().mpi};
  }
};

// 1 + 2 + ... + n
int64_t Triangle(int64_t n) {
  return n * (n + 1) / 2;
}

TEST_P(EngineOps, allreduce_of_all_reductions_and_sizes) {
  RunRanks(Options(), [](Rank& me) {
    for (const int64_t count : {0, 1, 3, 17, 1000, 8193, 300000}) {
      const std::string at = std::to_string(count);
      std::vector<float> in(static_cast<size_t>(count)), out(in);
      for (size_t i = 0; i < in.size(); ++i)
        in[i] = static_cast<float>((me.rank + 1) * static_cast<int>(i % 7 + 1));
      const float n = static_cast<float>(me.size);
      const float sum = static_cast<float>(Triangle(me.size));
      ASSERT_TRUE(me.Do(Allreduce("sum" + at, in, &out)).ok());
      for (size_t i = 0; i < in.size(); ++i) ASSERT_EQ(out[i], sum * static_cast<float>(i % 7 + 1));
      ASSERT_TRUE(me.Do(Allreduce("avg" + at, in, &out, ReduceOp::kAverage)).ok());
      for (size_t i = 0; i < in.size(); ++i)
        ASSERT_FLOAT_EQ(out[i], sum / n * static_cast<float>(i % 7 + 1));
      ASSERT_TRUE(me.Do(Allreduce("min" + at, in, &out, ReduceOp::kMin)).ok());
      for (size_t i = 0; i < in.size(); ++i) ASSERT_EQ(out[i], static_cast<float>(i % 7 + 1));
      ASSERT_TRUE(me.Do(Allreduce("max" + at, in, &out, ReduceOp::kMax)).ok());
      for (size_t i = 0; i < in.size(); ++i) ASSERT_EQ(out[i], n * static_cast<float>(i % 7 + 1));
      ASSERT_TRUE(me.Do(Allreduce("inplace" + at, in, &in)).ok());
      for (size_t i = 0; i < in.size(); ++i) ASSERT_EQ(in[i], sum * static_cast<float>(i % 7 + 1));
    }
  });
}

TEST_P(EngineOps, adasum_of_parallel_and_orthogonal_vectors) {
  RunRanks(Options(), [](Rank& me) {
    // Equal vectors: their average, which is the vector. Orthogonal ones: their sum.
    std::vector<double> same(1000, 2.5), out(1000);
    ASSERT_TRUE(me.Do(Allreduce("same", same, &out, ReduceOp::kAdasum)).ok());
    for (double x : out) ASSERT_NEAR(x, 2.5, 1e-12);
    std::vector<double> unit(static_cast<size_t>(me.size), 0.0), sum(unit);
    unit[static_cast<size_t>(me.rank)] = 3;
    ASSERT_TRUE(me.Do(Allreduce("unit", unit, &sum, ReduceOp::kAdasum)).ok());
    for (double x : sum) ASSERT_NEAR(x, 3, 1e-12);
  });
}

TEST_P(EngineOps, scale_factors) {
  RunRanks(Options(), [](Rank& me) {
    std::vector<float> in(33, 2), out(33);
    Submission s = Allreduce("x", in, &out);
    s.request.prescale = 0.5;
    s.request.postscale = 4;
    ASSERT_TRUE(me.Do(std::move(s)).ok());
    for (float x : out) ASSERT_EQ(x, static_cast<float>(me.size) * 4);
  });
}

TEST_P(EngineOps, allgather_of_uneven_rows) {
  RunRanks(Options(), [](Rank& me) {
    for (int round = 0; round < 4; ++round) {  // from round 1 on the slot says it
      for (const int64_t scale : {0, 1, 700, 20000}) {
        const int64_t rows = me.rank * scale;  // rank 0 has none
        std::vector<int32_t> in(static_cast<size_t>(rows * 2), me.rank);
        HandlePtr handle;
        ASSERT_TRUE(me.Do(Allgather("g" + std::to_string(scale), in, {rows, 2}), 0, &handle).ok());
        const auto out = Output<int32_t>(handle);
        ASSERT_EQ(handle->output.shape, (Shape{scale * Triangle(me.size - 1), 2}));
        size_t at = 0;
        for (int r = 0; r < me.size; ++r) {
          for (int64_t i = 0; i < r * scale * 2; ++i) ASSERT_EQ(out[at++], r);
        }
      }
    }
  });
}

TEST_P(EngineOps, allgather_whose_rows_change_every_time) {
  RunRanks(Options(), [](Rank& me) {
    for (int round = 0; round < 10; ++round) {
      // Some ranks say the same as last time, others do not: slots and full requests meet.
      const int mine = me.rank % 2 == 0 ? 3 : round;
      std::vector<int64_t> in(static_cast<size_t>(mine), me.rank);
      HandlePtr handle;
      ASSERT_TRUE(me.Do(Allgather("g", in), 0, &handle).ok());
      std::vector<int64_t> expected;
      for (int r = 0; r < me.size; ++r)
        expected.insert(expected.end(), static_cast<size_t>(r % 2 == 0 ? 3 : round), r);
      ASSERT_EQ(Output<int64_t>(handle), expected) << round;
    }
  });
}

TEST_P(EngineOps, broadcast_from_every_root) {
  RunRanks(Options(), [](Rank& me) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{5000}, size_t{200000}}) {
      for (int root = 0; root < me.size; ++root) {
        std::vector<int64_t> values(count, me.rank == root ? 77 + root : -1);
        ASSERT_TRUE(me.Do(Broadcast("b" + std::to_string(count) + "." + std::to_string(root),
                                    &values, root))
                        .ok());
        ASSERT_EQ(values, std::vector<int64_t>(count, 77 + root));
      }
    }
  });
}

TEST_P(EngineOps, alltoall_of_uneven_splits) {
  RunRanks(Options(), [](Rank& me) {
    for (int round = 0; round < 3; ++round) {
      for (const int64_t scale : {0, 1, 9000}) {
        std::vector<int64_t> splits, in;
        for (int to = 0; to < me.size; ++to) {
          splits.push_back((me.rank + to) % 3 * scale);
          in.insert(in.end(), static_cast<size_t>(splits.back()), me.rank * 100 + to);
        }
        HandlePtr handle;
        ASSERT_TRUE(me.Do(Alltoall("a" + std::to_string(scale), in, splits), 0, &handle).ok());
        std::vector<int64_t> expected, received;
        for (int from = 0; from < me.size; ++from) {
          received.push_back((from + me.rank) % 3 * scale);
          expected.insert(expected.end(), static_cast<size_t>(received.back()),
                          from * 100 + me.rank);
        }
        ASSERT_EQ(Output<int64_t>(handle), expected);
        ASSERT_EQ(handle->received_splits, received);
      }
    }
  });
}

TEST_P(EngineOps, reducescatter_gives_the_earlier_ranks_one_more_row) {
  RunRanks(Options(), [](Rank& me) {
    for (const int64_t rows : {0, 1, 2, 7, 10001}) {
      std::vector<float> in(static_cast<size_t>(rows * 3));
      for (size_t i = 0; i < in.size(); ++i)
        in[i] = static_cast<float>(i / 3 + static_cast<size_t>(me.rank));
      HandlePtr handle;
      ASSERT_TRUE(me.Do(Reducescatter("r" + std::to_string(rows), in, {rows, 3}), 0, &handle).ok());
      const int64_t mine = rows / me.size + (me.rank < rows % me.size ? 1 : 0);
      const int64_t before = rows / me.size * me.rank + std::min<int64_t>(me.rank, rows % me.size);
      ASSERT_EQ(handle->output.shape, (Shape{mine, 3}));
      const auto out = Output<float>(handle);
      for (size_t i = 0; i < out.size(); ++i) {
        const int64_t row = before + static_cast<int64_t>(i / 3);
        ASSERT_EQ(out[i], static_cast<float>(row * me.size + Triangle(me.size - 1)));
      }
    }
  });
}

TEST_P(EngineOps, barrier_lets_nobody_pass_before_the_last_has_come) {
  std::atomic<int> came{0};
  RunRanks(Options(), [&](Rank& me) {
    for (int round = 1; round <= 20; ++round) {
      if (round % me.size == me.rank) usleep(2000);
      ++came;
      ASSERT_TRUE(me.Do(Barrier()).ok());
      ASSERT_GE(came.load(), round * me.size);
    }
  });
}

TEST_P(EngineOps, ids_of_removed_sets_are_used_again_oldest_first) {
  RunRanks(Options(), [](Rank& me) {
    const auto add = [&me] {
      HandlePtr added;
      EXPECT_TRUE(me.Do(AddSet("add", {0}), 0, &added).ok());
      return added->number;
    };
    for (int id = 1; id <= 3; ++id) ASSERT_EQ(add(), id);
    for (int id : {2, 3, 1}) ASSERT_TRUE(me.Do(RemoveSet("remove", id), 0).ok());
    for (int id : {2, 3, 1, 4}) ASSERT_EQ(add(), id);
  });
}

TEST_P(EngineOps, a_set_is_added_used_and_removed) {
  RunRanks(Options(), [](Rank& me) {
    for (int round = 0; round < 5; ++round) {
      std::vector<int64_t> ranks;
      for (int r = 0; r < me.size; r += 2) ranks.push_back(r);
      HandlePtr added;
      ASSERT_TRUE(me.Do(AddSet("add", ranks), 0, &added).ok());
      const int id = static_cast<int>(added->number);
      ASSERT_EQ(id, 1);  // of the set removed in the round before
      if (me.rank % 2 == 0) {
        std::vector<int64_t> x(100, 1);
        ASSERT_TRUE(me.Do(Allreduce("x", x, &x), id).ok());
        ASSERT_EQ(x, std::vector<int64_t>(100, static_cast<int64_t>(ranks.size())));
      } else {
        std::vector<int64_t> x(1, 1);
        HandlePtr none;
        ASSERT_EQ(me.engine->Submit(id, Allreduce("x", x, &x), true, &none).code(),
                  StatusCode::kInvalidArgument);
      }
      HandlePtr removed;
      ASSERT_TRUE(me.Do(RemoveSet("remove", id), 0, &removed).ok());
      ASSERT_EQ(removed->number, 1);
      ASSERT_EQ(me.engine->sets().Members(id), nullptr);
    }
    HandlePtr removed;
    ASSERT_TRUE(me.Do(RemoveSet("remove", 5), 0, &removed).ok());
    ASSERT_EQ(removed->number, 0);
    ASSERT_TRUE(me.Do(RemoveSet("remove", 0), 0, &removed).ok());  // the world stays
    ASSERT_EQ(removed->number, 0);
  });
}

INSTANTIATE_TEST_SUITE_P(Shm, EngineOps,
                         ::testing::Values(Job{1, 1}, Job{2, 1}, Job{3, 1}, Job{4, 1}, Job{5, 1}));
INSTANTIATE_TEST_SUITE_P(Net, EngineOps, ::testing::Values(Job{2, 2}, Job{3, 3}));
INSTANTIATE_TEST_SUITE_P(Hierarchical, EngineOps,
                         ::testing::Values(Job{4, 2}, Job{5, 2}, Job{9, 3}));
INSTANTIATE_TEST_SUITE_P(Mpi, EngineOps,
                         ::testing::Values(Job{2, 1, true}, Job{3, 1, true}, Job{3, 3, true},
                                           Job{4, 2, true}, Job{5, 2, true}));

TEST(EngineOpsMany, sixteen_ranks_on_few_processors) {
  RunRanks({.size = 16, .limit_seconds = 120}, [](Rank& me) {
    for (int round = 0; round < 5; ++round) {
      std::vector<float> x(20000, 1);
      ASSERT_TRUE(me.Do(Allreduce("x", x, &x)).ok());
      ASSERT_EQ(x, std::vector<float>(20000, 16.0f));
      ASSERT_TRUE(me.Do(Barrier()).ok());
    }
  });
}

}  // namespace
}  // namespace hvdlite::testing
