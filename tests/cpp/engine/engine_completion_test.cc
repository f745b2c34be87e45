// Operations whose submitter is told of their end instead of waiting for it.
#include <gtest/gtest.h>

#include <barrier>
#include <cstring>

#include "testing/ranks.h"
#include "testing/says.h"

namespace hvdlite::testing {
namespace {

// What the submitter of some operations was told.
struct Callback {
  std::atomic<int> ended{0};
  std::atomic<int> failed{0};

  Submission With(Submission submission) {
    submission.completion.done = [this](const engine::Handle& handle) {
      if (!handle.status().ok()) ++failed;
      ++ended;
    };
    return submission;
  }
  void Await(int count) const {
    while (ended < count) usleep(100);
  }
};

class Completions : public ::testing::TestWithParam<int> {  // hosts
 protected:
  RanksOptions Options(int size) const { return {.size = size, .hosts = GetParam()}; }
};
INSTANTIATE_TEST_SUITE_P(Hosts, Completions, ::testing::Values(1, 2));

TEST_P(Completions, everybody_is_told_once_though_nobody_waits) {
  RunRanks(Options(3), [](Rank& me) {
    constexpr int kCount = 300;
    Callback told;
    std::vector<std::vector<float>> data(kCount, std::vector<float>(17, 1));
    for (int i = 0; i < kCount; ++i) {
      // In opposite orders: nothing depends on the order of submission.
      const size_t n = static_cast<size_t>(me.rank % 2 == 0 ? i : kCount - 1 - i);
      me.Submit(told.With(Allreduce("x" + std::to_string(n), data[n], &data[n])));
    }
    told.Await(kCount);
    EXPECT_EQ(told.failed, 0);
    for (const auto& x : data) ASSERT_EQ(x, std::vector<float>(17, 3));
    EXPECT_TRUE(me.Do(Barrier()).ok());
    EXPECT_EQ(told.ended, kCount);
  });
}

TEST_P(Completions, results_of_unknown_size_land_in_the_submitters_memory) {
  RunRanks(Options(3), [](Rank& me) {
    std::vector<int32_t> mine(static_cast<size_t>(me.rank), me.rank), all;
    std::atomic<bool> over{false};
    Submission gather = Allgather("rows", mine);
    gather.completion.allocate = [&](const TensorView& result) {
      EXPECT_EQ(result.shape, Shape{3});
      EXPECT_EQ(result.dtype, DType::kInt32);
      all.resize(static_cast<size_t>(result.elements()));
      return all.data();
    };
    gather.completion.done = [&](const engine::Handle& handle) {
      EXPECT_TRUE(handle.status().ok()) << handle.status().ToString();
      EXPECT_EQ(handle.output.data, all.data());
      over = true;
    };
    me.Submit(std::move(gather));
    while (!over) usleep(100);
    EXPECT_EQ(all, (std::vector<int32_t>{1, 2, 2}));
  });
}

TEST_P(Completions, an_empty_result_needs_no_memory) {
  RunRanks(Options(2), [](Rank& me) {
    const std::vector<float> nothing;
    std::atomic<bool> over{false};
    Submission gather = Allgather("nothing", nothing, Shape{0});
    gather.completion.allocate = [](const TensorView&) { return nullptr; };
    gather.completion.done = [&](const engine::Handle& handle) {
      EXPECT_TRUE(handle.status().ok()) << handle.status().ToString();
      over = true;
    };
    me.Submit(std::move(gather));
    while (!over) usleep(100);
  });
}

TEST_P(Completions, without_memory_for_a_result_the_job_ends_and_says_so) {
  RunRanks(Options(2), [](Rank& me) {
    const std::vector<float> mine(4, 1);
    Callback told;
    Submission gather = told.With(Allgather("rows", mine));
    if (me.rank == 1) gather.completion.allocate = [](const TensorView&) { return nullptr; };
    HandlePtr handle = me.Submit(std::move(gather));
    told.Await(1);
    EXPECT_TRUE(FailsWith(handle->status(), StatusCode::kIo,
                          "no memory on rank 1 for the result of allgather"));
  });
}

TEST_P(Completions, whoever_is_told_may_submit_again) {
  RunRanks(Options(2), [](Rank& me) {
    constexpr int kDepth = 200;
    std::vector<float> x(5, 1);
    std::atomic<int> left{kDepth};
    std::function<void()> next = [&] {
      Submission submission = Allreduce("chain", x, &x, ReduceOp::kAverage);
      submission.completion.done = [&](const engine::Handle& handle) {
        ASSERT_TRUE(handle.status().ok()) << handle.status().ToString();
        if (left.fetch_sub(1) > 1) next();
      };
      HandlePtr handle;
      const Status status = me.engine->Submit(0, std::move(submission), false, &handle);
      ASSERT_TRUE(status.ok()) << status.ToString();
    };
    next();
    while (left > 0) usleep(100);
    EXPECT_EQ(x, std::vector<float>(5, 1));
  });
}

TEST_P(Completions, are_told_while_another_thread_waits_and_drives) {
  RunRanks(Options(2), [](Rank& me) {
    std::vector<float> first(8, 1), second(8, 1), third(8, 1);
    if (me.rank == 1) {
      ASSERT_TRUE(me.Do(Allreduce("first", first, &first)).ok());
      ASSERT_TRUE(me.Do(Allreduce("second", second, &second)).ok());
    } else {
      // Rank 1 asks for "third" after "second" only, which rank 0 asks for when it is told, while
      // it waits for "third".
      Submission told = Allreduce("first", first, &first);
      told.completion.done = [&](const engine::Handle&) {
        HandlePtr handle;
        ASSERT_TRUE(
            me.engine->Submit(0, Allreduce("second", second, &second), false, &handle).ok());
      };
      me.Submit(std::move(told));
    }
    EXPECT_TRUE(me.Do(Allreduce("third", third, &third)).ok());
    EXPECT_EQ(second, std::vector<float>(8, 2));
  });
}

TEST_P(Completions, a_group_is_told_member_by_member) {
  RunRanks(Options(3), [](Rank& me) {
    Callback told;
    std::vector<std::vector<double>> data(10, std::vector<double>(3, me.rank));
    std::vector<Submission> group;
    for (size_t i = 0; i < data.size(); ++i) {
      group.push_back(told.With(Allreduce("g" + std::to_string(i), data[i], &data[i])));
      group.back().request.group = 7;
      group.back().request.group_size = static_cast<uint32_t>(data.size());
    }
    std::vector<HandlePtr> handles;
    ASSERT_TRUE(me.engine->SubmitGroup(0, std::move(group), &handles).ok());
    told.Await(10);
    EXPECT_EQ(told.failed, 0);
    for (const auto& x : data) EXPECT_EQ(x, std::vector<double>(3, 3));
  });
}

TEST_P(Completions, disagreement_is_told_to_all_and_harms_nobody_else) {
  RunRanks(Options(2), [](Rank& me) {
    Callback wrong, right;
    std::vector<float> x(static_cast<size_t>(3 + me.rank), 1), y(4, 1);
    me.Submit(wrong.With(Allreduce("x", x, &x)));
    me.Submit(right.With(Allreduce("y", y, &y)));
    wrong.Await(1);
    right.Await(1);
    EXPECT_EQ(wrong.failed, 1);
    EXPECT_EQ(right.failed, 0);
  });
}

TEST_P(Completions, what_is_outstanding_at_shutdown_is_told_before_it_returns) {
  RanksOptions options = Options(2);
  options.shutdown = false;
  std::barrier together(2);
  RunRanks(options, [&together](Rank& me) {
    Callback told;
    std::vector<float> x(4, 1);
    me.Submit(told.With(Allreduce("only rank " + std::to_string(me.rank), x, &x)));
    together.arrive_and_wait();  // after the first one's grace nobody may submit any more
    EXPECT_TRUE(me.engine->Shutdown(Deadline::AfterSeconds(20 * Patience())).ok());
    me.engine.reset();  // joins the engine's own thread, which may be the one that tells
    EXPECT_EQ(told.ended, 1);
    EXPECT_EQ(told.failed, 1);
  });
}

TEST_P(Completions, an_abort_is_told_to_everybody_and_may_come_from_one_who_is_told) {
  RunRanks(Options(3), [](Rank& me) {
    Callback told;
    std::vector<float> x(4, 1), y(4, 1);
    me.Submit(told.With(Allreduce("never on rank 2 " + std::to_string(me.rank == 2), x, &x)));
    Submission last = Allreduce("y", y, &y);
    last.completion.done = [&](const engine::Handle&) {
      if (me.rank == 1) me.engine->Abort(Status::PeerLost(1, "rank 1 has had enough"));
    };
    HandlePtr handle;
    const Status status = me.engine->Submit(0, std::move(last), false, &handle);
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::kPeerLost);
    told.Await(1);
    EXPECT_EQ(told.failed, 1);
  });
}

TEST_P(Completions, a_removed_process_sets_operations_are_told) {
  RunRanks(Options(2), [](Rank& me) {
    HandlePtr added;
    ASSERT_TRUE(me.Do(AddSet("pair", {0, 1}), 0, &added).ok());
    Callback told;
    std::vector<float> x(4, 1);
    if (me.rank == 0) me.Submit(told.With(Allreduce("x", x, &x)), static_cast<int>(added->number));
    ASSERT_TRUE(me.Do(RemoveSet("pair", static_cast<int>(added->number))).ok());
    if (me.rank != 0) return;
    told.Await(1);
    EXPECT_EQ(told.failed, 1);
  });
}

}  // namespace
}  // namespace hvdlite::testing
