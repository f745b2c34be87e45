// Results: what members say of their results, on its way to the root and there.
#include "engine/negotiate/results.h"

#include <gtest/gtest.h>

#include "engine/negotiate/tree.h"

namespace hvdlite::engine {
namespace {

// Says one digest of each member, and returns what the root makes of them.
std::string Verdict(const std::vector<uint64_t>& digests) {
  std::vector<int> ranks;
  for (size_t m = 0; m < digests.size(); ++m) ranks.push_back(static_cast<int>(m) + 4);
  Results results(ranks, 0, /*is_root=*/true);
  for (size_t m = digests.size(); m-- > 1;) results.Heard(static_cast<int>(m), {16, digests[m]});
  results.Say({16, digests[0]}, "allreduce 'x'");
  EXPECT_EQ(results.compared(), 1u);
  return results.TakeDifference();
}

TEST(ResultsTest, NamesTheOddOnesByMajority) {
  EXPECT_EQ(Verdict({1, 1, 1}), "");
  EXPECT_EQ(Verdict({0, 0}), "");
  EXPECT_EQ(Verdict({1, 1, 2}).find("rank 6 has another result than the other 2 ranks of allreduce "
                                    "'x'."),
            0u);
  EXPECT_EQ(
      Verdict({3, 1, 1, 2, 1}).find("ranks 4 and 7 have another result than the other 3 ranks"),
      0u);
  EXPECT_EQ(
      Verdict({1, 2}).find("ranks 4 and 5 have different results, and no majority has the same "
                           "of allreduce 'x'."),
      0u);
  EXPECT_EQ(Verdict({1, 1, 2, 2}).find("ranks 4-7 have different results"), 0u);
}

TEST(ResultsTest, TellsOnceAndGoesOnCounting) {
  Results results({0, 1}, 0, /*is_root=*/true);
  for (uint64_t decision = 0; decision < 10 * Results::kEvery; decision += Results::kEvery) {
    EXPECT_TRUE(Results::Samples(decision));
    EXPECT_FALSE(Results::Samples(decision + 1));
    results.Heard(1, {decision, 1});
    EXPECT_EQ(results.TakeDifference(), "");
    results.Say({decision, 2}, "x");
    EXPECT_EQ(results.TakeDifference().empty(), decision > 0);
  }
  EXPECT_EQ(results.compared(), 10u);
}

TEST(ResultsTest, DropsWhatSomeMembersNeverSpeakOf) {
  Results results({0, 1}, 0, /*is_root=*/true);
  for (uint64_t decision = 0; decision < 100; ++decision) results.Say({decision, 1}, "x");
  results.Heard(1, {0, 2});  // too late
  EXPECT_EQ(results.compared(), 0u);
  results.Heard(1, {99, 1});
  EXPECT_EQ(results.compared(), 1u);
  EXPECT_EQ(results.TakeDifference(), "");
}

class ResultsOfTrees : public ::testing::TestWithParam<int> {};

TEST_P(ResultsOfTrees, TravelWithOtherMessagesThroughRelays) {
  const int members = 7;
  Tree tree(members, GetParam(), 100);
  for (int round = 0; round < 8; ++round) {
    for (int m = 0; m < members; ++m) {
      const uint64_t value = round == 6 && m == 5 ? 1 : ~uint64_t{0};
      tree[m].agreement->results().Say({static_cast<uint64_t>(16 * round), value}, "x");
    }
    tree.Settle();
    // Nothing is sent on its own.
    ASSERT_EQ(tree[0].agreement->results().compared(), static_cast<uint64_t>(round));
    for (int m = 0; m < members; ++m) ASSERT_TRUE(tree[m].Ask(Sum("a")).ok());
    tree.Settle();
    ASSERT_EQ(tree[0].agreement->results().compared(), static_cast<uint64_t>(round + 1));
    const std::string difference = tree[0].agreement->results().TakeDifference();
    ASSERT_EQ(difference.substr(0, 45),
              round == 6 ? "rank 5 has another result than the other 6 ra" : "");
  }
  tree.ExpectEqualHistories();
}

INSTANTIATE_TEST_SUITE_P(PerHost, ResultsOfTrees, ::testing::Values(1, 2, 3, 7));

}  // namespace
}  // namespace hvdlite::engine
