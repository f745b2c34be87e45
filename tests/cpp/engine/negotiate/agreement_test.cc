// Agreement: all members of a tree come to the same decisions in the same order, whatever is
// announced in whatever order, by slot or in full, while slots come and go.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "engine/negotiate/tree.h"
#include "testing/says.h"

namespace hvdlite::engine {
namespace {

struct Place {
  int members, per_host;
  bool faults;
};
void PrintTo(const Place& p, std::ostream* out) {
  *out << p.members << " members, " << p.per_host << " per host"
       << (p.faults ? ", bad transports" : "");
}

class AgreementTest : public ::testing::TestWithParam<Place> {
 protected:
  Tree MakeTheTree(size_t capacity) {
    return Tree(GetParam().members, GetParam().per_host, capacity, GetParam().faults);
  }
};

TEST_P(AgreementTest, nothing_happens_before_the_last_has_asked) {
  Tree tree = MakeTheTree(100);
  for (int round = 0; round < 3; ++round) {
    for (int m = tree.size() - 1; m >= 0; --m) {
      ASSERT_TRUE(tree[m].history.size() == static_cast<size_t>(round));
      ASSERT_TRUE(tree[m].Ask(Sum("x")).ok());
      if (m > 0) tree.Settle();
    }
    tree.Settle();
    tree.ExpectEqualHistories();
    ASSERT_EQ(tree[0].history.size(), static_cast<size_t>(round + 1));
  }
}

TEST_P(AgreementTest, members_that_ask_by_slot_do_not_wait_for_those_that_ask_in_full) {
  Tree tree = MakeTheTree(100);
  for (int round = 0; round < 20; ++round) {
    for (int m = 0; m < tree.size(); ++m) {
      // Changing subsets change their rows.
      const int64_t rows = (m * 7 + round) % 3 == 0 ? round : 5;
      ASSERT_TRUE(tree[m].Ask(Gather("g", rows)).ok());
      if ((m + round) % 2 == 0) tree.Settle();
    }
    tree.Settle();
    ASSERT_EQ(tree[0].history.size(), static_cast<size_t>(round + 1)) << "somebody is kept waiting";
    tree.ExpectEqualHistories();
  }
}

TEST_P(AgreementTest, the_root_knows_at_once_who_has_asked_where_arrivals_are_watched) {
  Tree tree = MakeTheTree(100);
  const auto watch = [&](bool on) {
    for (int m = 0; m < tree.size(); ++m) tree[m].agreement->WatchArrivals(on);
  };
  for (int round = 0; round < 6; ++round) {
    // On from the second round on, changed in the middle of the fourth and the fifth.
    const bool watched = round >= 1;
    watch(watched);
    const bool changes = round == 3 || round == 4;
    for (int m = tree.size() - 1; m >= 0; --m) {
      ASSERT_TRUE(tree[m].Ask(Sum("x")).ok());
      tree.Settle();
      const std::vector<Ledger::Arrival> arrived = tree[0].agreement->TakeArrivals();
      if (changes) {
        watch(m % 2 == 0);
      } else if (watched) {
        ASSERT_EQ(arrived.size(), 1u) << "round " << round << ", member " << m;
        EXPECT_EQ(arrived[0].member, m);
        EXPECT_EQ(arrived[0].name, "x");
      } else {
        EXPECT_TRUE(arrived.empty());
      }
    }
    ASSERT_EQ(tree[0].history.size(), static_cast<size_t>(round + 1)) << "somebody is kept waiting";
    tree.ExpectEqualHistories();
  }
}

TEST_P(AgreementTest, operations_go_on_after_a_member_has_joined) {
  Tree tree = MakeTheTree(100);
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (int m = 0; m < tree.size(); ++m) ASSERT_TRUE(tree[m].Ask(Sum("x")).ok());
    tree.Settle();
    for (int gone = tree.size() - 1; gone >= 0; --gone) {
      ASSERT_TRUE(tree[gone].Ask(Joining()).ok());
      if (gone == 0) break;
      for (int m = 0; m < gone; ++m) ASSERT_TRUE(tree[m].Ask(Sum("x")).ok());
      tree.Settle();
      ASSERT_TRUE(tree[0].outstanding.empty()) << "with " << gone << " members left";
    }
    tree.Settle();
    tree.ExpectEqualHistories();
    for (int m = 0; m < tree.size(); ++m) ASSERT_FALSE(tree[m].joined);
  }
}

TEST_P(AgreementTest, a_slot_stands_for_what_was_asked_before_somebody_joined) {
  Tree tree = MakeTheTree(100);
  const int last = tree.size() - 1;
  std::vector<int64_t> rows;
  for (int m = 0; m <= last; ++m) rows.push_back(m + 3);
  std::vector<int64_t> without = rows;
  without.back() = 0;
  const auto ask = [&](int members) {
    for (int m = 0; m < members; ++m)
      ASSERT_TRUE(tree[m].Ask(Gather("g", rows[static_cast<size_t>(m)])).ok());
    tree.Settle();
  };
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (int turn = 0; turn < 2; ++turn) {
      ask(tree.size());
      EXPECT_EQ(tree[0].history.back(), "do g " + ToString(rows));
    }
    ASSERT_TRUE(tree[last].Ask(Joining()).ok());
    for (int turn = 0; turn < 2 && last > 0; ++turn) {
      ask(last);
      EXPECT_EQ(tree[0].history.back(), "do g " + ToString(without)) << "turn " << turn;
    }
    for (int m = 0; m < last; ++m) ASSERT_TRUE(tree[m].Ask(Joining()).ok());
    tree.Settle();
    tree.ExpectEqualHistories();
  }
}

TEST_P(AgreementTest, a_slot_that_crosses_its_eviction_still_counts) {
  Tree tree = MakeTheTree(1);
  for (const char* name : {"old", "new"}) {  // the second one evicts the first
    for (int m = 0; m < tree.size(); ++m) ASSERT_TRUE(tree[m].Ask(Sum(name)).ok());
    if (std::string(name) == "old") tree.Settle();
  }
  // The root decides "new" and evicts "old"; before anybody hears it, some ask for "old" by slot.
  for (int i = 0; i < 200 && tree[0].history.size() < 3; ++i) {
    for (int m = tree.size() - 1; m >= 0; --m) {
      if (m > 0 && tree[m].history.size() > 1) continue;
      tree.Turn(m);
    }
  }
  for (int m = 1; m < tree.size(); m += 2) ASSERT_TRUE(tree[m].Ask(Sum("old")).ok());
  tree.Settle();
  for (int m = 0; m < tree.size(); m += 2) ASSERT_TRUE(tree[m].Ask(Sum("old")).ok());
  tree.Settle();
  tree.ExpectEqualHistories();
  for (int m = 0; m < tree.size(); ++m) ASSERT_TRUE(tree[m].outstanding.empty());
}

TEST_P(AgreementTest, thousands_of_random_operations_come_out_alike_everywhere) {
  for (uint32_t seed = 0; seed < 12; ++seed) {
    Tree tree = MakeTheTree(seed % 3 == 0 ? 0 : seed % 3 == 1 ? 4 : 1000);
    std::mt19937 random(seed);
    // A program that all members run, each at its own pace and in its own order within a step.
    struct Step {
      std::vector<int> ops;
      bool join = false;
    };
    std::vector<Step> program;
    for (int s = 0; s < 25; ++s) {
      Step step;
      for (int op = 0; op < 12; ++op) {
        if (random() % 3 != 0) step.ops.push_back(op);
      }
      step.join = random() % 8 == 0;
      program.push_back(step);
    }
    std::vector<size_t> at(static_cast<size_t>(tree.size()), 0);
    std::vector<std::vector<int>> todo(static_cast<size_t>(tree.size()));
    std::vector<bool> begun(static_cast<size_t>(tree.size()), false);
    const auto request = [&](int m, size_t step, int op) {
      if (op == -1) return Joining();
      const std::string name = "op" + std::to_string(op);
      switch (op % 4) {
        case 0: return Gather(name, (static_cast<int64_t>(step) * (m % 2)) % 3 + op);
        case 1:
          return Sum(name, {static_cast<int64_t>(step / 5)});  // everybody changes at the same time
        case 2: return Sum(name, {m == 1 && step % 7 == 3 ? 2 : 1});  // sometimes a mismatch
        default: return Sum(name);
      }
    };
    int stuck = 0;
    while (std::any_of(at.begin(), at.end(), [&](size_t a) { return a < program.size(); })) {
      ASSERT_LT(++stuck, 400000) << "seed " << seed << " hangs";
      const int m = static_cast<int>(random() % static_cast<uint32_t>(tree.size()));
      const size_t i = static_cast<size_t>(m);
      if (random() % 2 == 0) {
        tree.Turn(m);
        continue;
      }
      if (at[i] == program.size()) continue;
      if (!begun[i]) {
        begun[i] = true;
        todo[i] = program[at[i]].ops;
        std::shuffle(todo[i].begin(), todo[i].end(), random);
        if (program[at[i]].join) todo[i].push_back(-1);
      }
      if (!todo[i].empty()) {
        // A member that joins has nothing outstanding but the join.
        if (todo[i].front() == -1 && !tree[m].outstanding.empty()) continue;
        ASSERT_TRUE(tree[m].Ask(request(m, at[i], todo[i].front())).ok());
        todo[i].erase(todo[i].begin());
      } else if (tree[m].outstanding.empty()) {
        ++at[i];
        begun[i] = false;
      }
    }
    tree.Settle();
    tree.ExpectEqualHistories();
  }
}

TEST_P(AgreementTest, an_abort_reaches_everybody) {
  Tree tree = MakeTheTree(100);
  // Every rank passes on what it hears, once, as the engine does.
  std::vector<Decision> last;
  tree[tree.size() - 1].agreement->SpreadAbort(Status::PeerLost(7, "gone"), 0, &last);
  std::set<int> told{tree.size() - 1};
  for (int turn = 0; turn < 500; ++turn) {
    for (int m = 0; m < tree.size(); ++m) {
      bool moved = false;
      std::vector<Decision> decisions;
      ASSERT_TRUE(tree[m].agreement->Exchange(0, &decisions, &moved).ok());
      for (const Decision& decision : decisions) {
        ASSERT_EQ(decision.kind, Down::kAbort);
        ASSERT_EQ(decision.status.peer(), 7);
        if (told.insert(m).second) tree[m].agreement->SpreadAbort(decision.status, 0, &last);
      }
    }
  }
  ASSERT_EQ(told.size(), static_cast<size_t>(tree.size()));
}

TEST_P(AgreementTest, shutdown_waits_for_what_the_leaving_member_has_announced) {
  Tree tree = MakeTheTree(100);
  const int last = tree.size() - 1;
  ASSERT_TRUE(tree[last].Ask(Sum("promised")).ok());
  tree[last].agreement->AnnounceShutdown(0);
  tree.Settle();
  if (last > 0) {
    ASSERT_TRUE(tree[0].history.empty());
    for (int m = 0; m < last; ++m) ASSERT_TRUE(tree[m].Ask(Sum("promised")).ok());
    tree.Settle();
  }
  tree.ExpectEqualHistories();
  ASSERT_EQ(tree[0].history.size(), 2u);
  ASSERT_EQ(tree[0].history[0], "do promised []");
  ASSERT_TRUE(Says(tree[0].history[1], "rank " + std::to_string(last) + " called hvd.shutdown()"));
}

TEST_P(AgreementTest, shutdown_waits_two_seconds_for_what_others_never_announce) {
  Tree tree = MakeTheTree(100);
  const int last = tree.size() - 1;
  if (last < 2) GTEST_SKIP() << "somebody else announces it, and somebody does not";
  for (int m = 1; m <= last; ++m) ASSERT_TRUE(tree[m].Ask(Sum("promised")).ok());
  tree.now = 5 * kSecond;
  tree[last].agreement->AnnounceShutdown(tree.now);
  tree.Settle();
  tree.now += 2 * kSecond;
  tree.Settle();
  ASSERT_TRUE(tree[0].history.empty());
  tree.now += 1;
  tree.Settle();
  tree.ExpectEqualHistories();
  ASSERT_EQ(tree[0].history.size(), 1u);
  ASSERT_TRUE(Says(tree[0].history[0], "rank " + std::to_string(last) + " called hvd.shutdown()"));
}

TEST_P(AgreementTest, shutdown_waits_for_nothing_once_everybody_leaves) {
  Tree tree = MakeTheTree(100);
  if (tree.size() == 1) GTEST_SKIP() << "one member alone promises nothing";
  for (int m = 0; m < tree.size(); ++m) {
    if (m > 0) {
      ASSERT_TRUE(tree[m].Ask(Sum("promised")).ok());
    }
    tree[m].agreement->AnnounceShutdown(0);
  }
  tree.Settle();
  tree.ExpectEqualHistories();
  ASSERT_EQ(tree[0].history.size(), 1u);
}

TEST_P(AgreementTest, shutdown_does_not_wait_for_what_only_others_have_announced) {
  Tree tree = MakeTheTree(100);
  const int last = tree.size() - 1;
  for (int m = 0; m < last; ++m) ASSERT_TRUE(tree[m].Ask(Sum("x")).ok());
  tree.Settle();
  tree[last].agreement->AnnounceShutdown(0);
  tree.Settle();
  tree.ExpectEqualHistories();
  ASSERT_EQ(tree[0].history.size(), 1u);
  ASSERT_TRUE(Says(tree[0].history[0], "rank " + std::to_string(last) + " called hvd.shutdown()"));
}

INSTANTIATE_TEST_SUITE_P(Trees, AgreementTest,
                         ::testing::Values(Place{1, 1, false}, Place{2, 2, false},
                                           Place{3, 3, true}, Place{4, 2, false}, Place{6, 2, true},
                                           Place{9, 3, false}, Place{12, 2, false},
                                           Place{23, 4, false}, Place{7, 1, true}));

}  // namespace
}  // namespace hvdlite::engine
