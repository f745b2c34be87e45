// Process sets that their members alone add and remove. The programs of other ranks take no part.
#include <barrier>
#include <random>

#include "engine/job.h"
#include "engine/negotiate/named.h"
#include "testing/ranks.h"

namespace hvdlite::testing {
namespace {

using Ranks = std::vector<int64_t>;

Submission Named(OpKind kind, const std::string& given, Ranks ranks, int id = 0) {
  Submission s = Nothing(kind, engine::NameAmong(std::string(Name(kind)) + "." + given, ranks));
  s.request.root = id;
  s.request.splits = std::move(ranks);
  return s;
}
Submission Add(const std::string& given, Ranks ranks) {
  return Named(OpKind::kAddNamedProcessSet, given, std::move(ranks));
}
Submission Remove(const std::string& given, Ranks ranks, int id) {
  return Named(OpKind::kRemoveNamedProcessSet, given, std::move(ranks), id);
}

// The id of the new set; -1, and a failure of the test, if it cannot be added.
int Added(Rank* me, const std::string& given, Ranks ranks) {
  HandlePtr handle;
  const Status status = me->Do(Add(given, std::move(ranks)), 0, &handle);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return status.ok() ? static_cast<int>(handle->number) : -1;
}

// An allreduce whose sum shows who has taken part.
void Sum(Rank* me, int set, const Ranks& ranks) {
  std::vector<int64_t> x(3000, int64_t{1} << me->rank);
  const Status status = me->Do(Allreduce("x", x, &x), set);
  ASSERT_TRUE(status.ok()) << status.ToString();
  int64_t sum = 0;
  for (const int64_t rank : ranks) sum += int64_t{1} << rank;
  ASSERT_EQ(x, std::vector<int64_t>(x.size(), sum));
}

class EngineNamedSets : public ::testing::TestWithParam<Job> {
 protected:
  RanksOptions Options() const {
    return {.size = GetParam().ranks, .hosts = GetParam().hosts, .mpi = GetParam().mpi};
  }
  Ranks Everyone() const {
    Ranks all;
    for (int rank = 0; rank < GetParam().ranks; ++rank) all.push_back(rank);
    return all;
  }
};

TEST_P(EngineNamedSets, members_use_and_remove_a_set_while_the_others_do_nothing) {
  std::barrier<> over(GetParam().ranks);
  RunRanks(Options(), [&](Rank& me) {
    const Ranks members = {1, GetParam().ranks - 1};
    if (me.rank == members[0] || me.rank == members[1]) {
      for (int round = 0; round < 3; ++round) {
        const int id = Added(&me, "eval", members);
        ASSERT_GT(id, 0);
        Sum(&me, id, members);
        Sum(&me, id, members);
        HandlePtr removed;
        ASSERT_TRUE(me.Do(Remove("eval", members, id), 0, &removed).ok());
        EXPECT_EQ(removed->number, 1);
        HandlePtr refused;
        std::vector<float> x(1);
        EXPECT_FALSE(me.engine->Submit(id, Allreduce("x", x, &x), true, &refused).ok());
      }
    }
    over.arrive_and_wait();  // until here the others have called nothing
    Sum(&me, 0, Everyone());
  });
}

TEST_P(EngineNamedSets, a_rank_that_is_not_named_is_refused) {
  RunRanks(Options(), [&](Rank& me) {
    if (me.rank == 0) {
      HandlePtr handle;
      const Status status = me.engine->Submit(0, Add("a", {1}), true, &handle);
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
      EXPECT_EQ(
          status.message(),
          "add_named_process_set: rank 0 is not among the ranks [1] of the set. Only its members "
          "call it");
      EXPECT_FALSE(me.engine->Submit(0, Add("a", {0, 99}), true, &handle).ok());
    }
    ASSERT_TRUE(me.Do(Barrier()).ok());
  });
}

TEST_P(EngineNamedSets, several_sets_of_the_same_ranks_and_of_all_and_of_one) {
  RunRanks(Options(), [&](Rank& me) {
    const Ranks all = Everyone();
    const int first = Added(&me, "first", all);
    const int second = Added(&me, "second", all);
    const int alone = Added(&me, "alone", {me.rank});
    ASSERT_NE(first, second);
    // The same operation in each, outstanding at a time.
    std::vector<int64_t> a(100, 1), b(100, 1), c(100, 1);
    const HandlePtr one = me.Submit(Allreduce("x", a, &a), first);
    const HandlePtr two = me.Submit(Allreduce("x", b, &b), second);
    Sum(&me, alone, {me.rank});
    Sum(&me, 0, all);
    ASSERT_TRUE(me.Wait(two).ok());
    ASSERT_TRUE(me.Wait(one).ok());
    EXPECT_EQ(a, b);
    EXPECT_TRUE(me.engine->sets().Ids() == std::vector<int>{0}) << "named sets are not listed";
  });
}

TEST_P(EngineNamedSets, all_ranks_go_on_numbering_alike) {
  std::vector<int> ids(static_cast<size_t>(GetParam().ranks));
  RunRanks(Options(), [&](Rank& me) {
    if (me.rank == 0) {
      const int id = Added(&me, "a", {0});
      ASSERT_TRUE(me.Do(Remove("a", {0}, id)).ok());
      Added(&me, "b", {0});
    }
    HandlePtr handle;
    ASSERT_TRUE(me.Do(AddSet("add_process_set.0", Everyone()), 0, &handle).ok());
    ids[static_cast<size_t>(me.rank)] = static_cast<int>(handle->number);
    Sum(&me, static_cast<int>(handle->number), Everyone());
  });
  EXPECT_EQ(ids, std::vector<int>(ids.size(), ids[0]));
}

TEST_P(EngineNamedSets, two_threads_may_add_two_sets_in_crossing_order) {
  RunRanks(Options(), [&](Rank& me) {
    for (int round = 0; me.rank <= 1 && round < 5; ++round) {
      std::vector<std::thread> threads;
      for (const std::string name : {"a", "b"}) {
        threads.emplace_back([&me, name] {
          const int id = Added(&me, name, {0, 1});
          Sum(&me, id, {0, 1});
          EXPECT_TRUE(me.Do(Remove(name, {0, 1}, id)).ok());
        });
        if (me.rank == 0) usleep(200);  // the ranks begin the second at different times
      }
      for (std::thread& thread : threads) thread.join();
    }
    ASSERT_TRUE(me.Do(Barrier("end")).ok());
  });
}

TEST_P(EngineNamedSets, ranks_that_disagree_all_hear_of_it_and_may_agree_then) {
  RunRanks(Options(), [&](Rank& me) {
    const Ranks all = Everyone();
    const Status status = me.Do(Add("eval", me.rank == 1 ? Ranks{0, 1} : all));
    EXPECT_EQ(status.code(), StatusCode::kMismatch) << status.ToString();
    EXPECT_NE(status.message().find("rank 1 named the ranks [0, 1]"), std::string::npos)
        << status.message();
    EXPECT_NE(status.message().find(" named the ranks " + ToString(all)), std::string::npos)
        << status.message();
    ASSERT_TRUE(me.Do(Barrier()).ok());
    Sum(&me, Added(&me, "eval", all), all);
  });
}

TEST_P(EngineNamedSets, a_name_that_is_in_use_is_refused_until_its_set_is_removed) {
  RunRanks(Options(), [&](Rank& me) {
    if (me.rank == 0) {
      const int id = Added(&me, "a", {0});
      const Status again = me.Do(Add("a", {0}));
      EXPECT_EQ(again.code(), StatusCode::kInvalidArgument);
      EXPECT_NE(again.message().find("'a' of the ranks [0] exists already"), std::string::npos)
          << again.message();
      ASSERT_TRUE(me.Do(Barrier("exists")).ok());
      ASSERT_TRUE(me.Do(Barrier("refused")).ok());
      ASSERT_TRUE(me.Do(Remove("a", {0}, id)).ok());
    } else {
      ASSERT_TRUE(me.Do(Barrier("exists")).ok());
      if (me.rank == 1) {
        EXPECT_EQ(me.Do(Add("a", {0, 1})).code(), StatusCode::kInvalidArgument);
      }
      ASSERT_TRUE(me.Do(Barrier("refused")).ok());
    }
    ASSERT_TRUE(me.Do(Barrier("removed")).ok());
    Sum(&me, Added(&me, "a", Everyone()), Everyone());
  });
}

TEST_P(EngineNamedSets, a_shutdown_ends_the_wait_for_a_member_that_does_not_come) {
  RunRanks(Options(), [&](Rank& me) {
    if (me.rank != 0) return;  // they leave
    const Status status = me.Do(Add("a", {0, 1}));
    EXPECT_EQ(status.code(), StatusCode::kShutDown) << status.ToString();
  });
}

TEST_P(EngineNamedSets, an_abort_ends_the_wait_for_a_member_that_does_not_come) {
  std::barrier<> waits(GetParam().ranks);
  RunRanks(Options(), [&](Rank& me) {
    HandlePtr handle = me.rank == 0 ? me.Submit(Add("a", {0, 1})) : nullptr;
    waits.arrive_and_wait();
    if (me.rank == 1) me.engine->Abort(Status::PeerLost(1, "rank 1 failed: in a test"));
    if (me.rank == 0) {
      EXPECT_EQ(me.Wait(handle).code(), StatusCode::kPeerLost);
    }
    waits.arrive_and_wait();  // none leaves before
  });
}

TEST_P(EngineNamedSets, an_operation_that_is_outstanding_when_members_remove_a_set_ends) {
  RunRanks(Options(), [&](Rank& me) {
    if (me.rank <= 1) {
      const int id = Added(&me, "a", {0, 1});
      std::vector<float> x(10, 1);
      HandlePtr never = me.rank == 0 ? me.Submit(Allreduce("never", x, &x), id) : nullptr;
      ASSERT_TRUE(me.Do(Remove("a", {0, 1}, id)).ok());
      if (never != nullptr) {
        EXPECT_EQ(me.Wait(never).code(), StatusCode::kInvalidArgument);
      }
    }
    ASSERT_TRUE(me.Do(Barrier("end")).ok());
  });
}

// Each rank adds its sets in one order that all derive, with delays of its own; meanwhile another
// thread reduces among all ranks.
TEST_P(EngineNamedSets, many_sets_at_a_time_with_random_delays) {
  RanksOptions options = Options();
  options.limit_seconds = 120;
  options.config.debug_delay_microseconds = 50;
  constexpr int kSets = 25;
  RunRanks(options, [&](Rank& me) {
    std::thread others([&] {
      for (int round = 0; round < 50; ++round) {
        std::vector<int64_t> x(static_cast<size_t>(1 + round * 40), 1);
        ASSERT_TRUE(me.Do(Allreduce("all", x, &x)).ok());
        ASSERT_EQ(x.back(), me.size);
      }
    });
    std::mt19937 same(7);
    std::mt19937 mine(static_cast<unsigned>(me.rank));
    std::vector<std::pair<int, Ranks>> kept;
    for (int set = 0; set < kSets; ++set) {
      Ranks ranks;
      for (int rank = 0; rank < me.size; ++rank) {
        if (same() % 2 == 0) ranks.push_back(rank);
      }
      if (std::find(ranks.begin(), ranks.end(), me.rank) == ranks.end()) continue;
      usleep(mine() % 2000);
      const std::string name = "set" + std::to_string(set);
      const int id = Added(&me, name, ranks);
      ASSERT_GT(id, 0);
      Sum(&me, id, ranks);
      if (set % 3 == 0) {
        ASSERT_TRUE(me.Do(Remove(name, ranks, id)).ok());
      } else {
        kept.emplace_back(id, ranks);
      }
    }
    for (const auto& [id, ranks] : kept) Sum(&me, id, ranks);
    others.join();
    ASSERT_TRUE(me.Do(Barrier("end")).ok());
  });
}

INSTANTIATE_TEST_SUITE_P(Jobs, EngineNamedSets,
                         ::testing::Values(Job{3, 1}, Job{4, 2}, Job{3, 3}, Job{3, 1, true},
                                           Job{4, 2, true}));

}  // namespace
}  // namespace hvdlite::testing
