// Results that the engine writes into memory of the caller's. The handle then has no memory of its
// own, so there was nothing to copy from.
#include "engine/job.h"
#include "testing/ranks.h"

namespace hvdlite::testing {
namespace {

using Values = std::vector<int64_t>;

class EngineOutput : public ::testing::TestWithParam<Job> {
 protected:
  RanksOptions Options() const {
    return {.size = GetParam().ranks, .hosts = GetParam().hosts, .mpi = GetParam().mpi};
  }
};

Submission Into(Values* output, Submission submission) {
  submission.output = View(*output);
  return submission;
}

// Rank r contributes r + 1 rows for each `rows`, of the value r.
Values RowsOf(int rank, size_t rows) {
  return Values(rows * static_cast<size_t>(rank + 1), rank);
}
Values Gathered(int size, size_t rows) {
  Values all;
  for (int rank = 0; rank < size; ++rank) {
    const Values theirs = RowsOf(rank, rows);
    all.insert(all.end(), theirs.begin(), theirs.end());
  }
  return all;
}

constexpr size_t kSizes[] = {1, 100, 60'000};

TEST_P(EngineOutput, an_allgather_of_unequal_rows) {
  RunRanks(Options(), [](Rank& me) {
    for (const size_t rows : kSizes) {
      const Values in = RowsOf(me.rank, rows);
      const Values expected = Gathered(me.size, rows);
      for (int round = 0; round < 2; ++round) {  // in full, and as a slot
        Values out(expected.size(), -1);
        HandlePtr handle;
        const Status status =
            me.Do(Into(&out, Allgather("x" + std::to_string(rows), in)), 0, &handle);
        ASSERT_TRUE(status.ok()) << status.ToString();
        EXPECT_EQ(out, expected);
        EXPECT_EQ(handle->output.data, nullptr);
      }
    }
  });
}

TEST_P(EngineOutput, an_allgather_whose_input_lies_in_its_output) {
  RunRanks(Options(), [](Rank& me) {
    for (const size_t rows : kSizes) {
      Values out = Gathered(me.size, rows);
      const Values expected = out;
      Values none;
      Submission s = Into(&out, Allgather("x" + std::to_string(rows), none));
      const size_t before = Gathered(me.rank, rows).size();
      const size_t own = RowsOf(me.rank, rows).size();
      for (size_t i = 0; i < out.size(); ++i) {
        if (i < before || i >= before + own) out[i] = -1;
      }
      s.input.data = out.data() + before;
      s.request.shape = s.input.shape = {static_cast<int64_t>(own)};
      ASSERT_TRUE(me.Do(std::move(s)).ok());
      EXPECT_EQ(out, expected);
    }
  });
}

TEST_P(EngineOutput, an_alltoall_with_splits) {
  RunRanks(Options(), [](Rank& me) {
    for (const size_t rows : kSizes) {
      // Each rank sends `rows` rows more to the next rank than to the one before.
      std::vector<int64_t> splits;
      Values in, expected;
      for (int to = 0; to < me.size; ++to) {
        splits.push_back(static_cast<int64_t>(rows) * (to + 1));
        in.insert(in.end(), rows * static_cast<size_t>(to + 1), me.rank);
      }
      for (int from = 0; from < me.size; ++from)
        expected.insert(expected.end(), rows * static_cast<size_t>(me.rank + 1), from);
      Values out(expected.size(), -1);
      HandlePtr handle;
      ASSERT_TRUE(
          me.Do(Into(&out, Alltoall("x" + std::to_string(rows), in, splits)), 0, &handle).ok());
      EXPECT_EQ(out, expected);
      EXPECT_EQ(handle->output.data, nullptr);
      EXPECT_EQ(handle->received_splits,
                std::vector<int64_t>(static_cast<size_t>(me.size),
                                     static_cast<int64_t>(rows) * (me.rank + 1)));
    }
  });
}

TEST_P(EngineOutput, a_reducescatter_of_shares_that_differ) {
  RunRanks(Options(), [](Rank& me) {
    for (const size_t rows : kSizes) {
      const Values in(rows * static_cast<size_t>(me.size) + 1, me.rank);
      Values out(rows + (me.rank == 0 ? 1 : 0), -1);
      HandlePtr handle;
      ASSERT_TRUE(
          me.Do(Into(&out, Reducescatter("x" + std::to_string(rows), in)), 0, &handle).ok());
      EXPECT_EQ(out, Values(out.size(), me.size * (me.size - 1) / 2));
      EXPECT_EQ(handle->output.data, nullptr);
    }
  });
}

TEST_P(EngineOutput, of_another_size_fails_on_its_rank_only_and_the_engine_goes_on) {
  RunRanks(Options(), [](Rank& me) {
    const Values expected = Gathered(me.size, 10);
    for (int round = 0; round < 2; ++round) {
      const Values in = RowsOf(me.rank, 10);
      Values out(expected.size() + (me.rank == 1 ? 3 : 0), -1);
      const Values untouched = out;
      const Status status = me.Do(Into(&out, Allgather("x", in)));
      if (me.rank == 1) {
        EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
        EXPECT_NE(status.message().find("the result has shape " +
                                        ToString({static_cast<int64_t>(expected.size())}) +
                                        " on this rank, but the output has shape " +
                                        ToString({static_cast<int64_t>(out.size())})),
                  std::string::npos)
            << status.message();
        EXPECT_EQ(out, untouched);
      } else {
        ASSERT_TRUE(status.ok()) << status.ToString();
        EXPECT_EQ(out, expected);
      }
    }
    Values x(5, 1);
    ASSERT_TRUE(me.Do(Allreduce("after", x, &x)).ok());
    EXPECT_EQ(x, Values(5, me.size));
  });
}

TEST_P(EngineOutput, members_of_a_group_have_outputs_of_their_own) {
  RunRanks(Options(), [](Rank& me) {
    const Values in = RowsOf(me.rank, 20);
    const Values expected = Gathered(me.size, 20);
    std::vector<Values> outs(3, Values(expected.size(), -1));
    std::vector<Submission> group;
    for (size_t i = 0; i < outs.size(); ++i) {
      group.push_back(Allgather("g" + std::to_string(i), in));
      group.back().request.group = 7;
      group.back().request.group_size = 3;
      if (i != 1) group.back().output = View(outs[i]);
    }
    std::vector<HandlePtr> handles;
    ASSERT_TRUE(me.engine->SubmitGroup(0, std::move(group), &handles).ok());
    for (const HandlePtr& handle : handles) ASSERT_TRUE(me.Wait(handle).ok());
    EXPECT_EQ(outs[0], expected);
    EXPECT_EQ(Output<int64_t>(handles[1]), expected);
    EXPECT_EQ(outs[2], expected);
  });
}

INSTANTIATE_TEST_SUITE_P(Jobs, EngineOutput,
                         ::testing::Values(Job{1, 1}, Job{3, 1}, Job{4, 2}, Job{3, 3},
                                           Job{3, 1, true}, Job{4, 2, true}));

}  // namespace
}  // namespace hvdlite::testing
