// Operations that only some ranks ask for: their names, when they are ready, and the errors of
// ranks that do not mean the same.
#include "engine/negotiate/named.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/negotiate/ledger.h"
#include "engine/negotiate/validate.h"
#include "engine/shapes.h"

namespace hvdlite::engine {
namespace {

Request Add(const std::string& given, std::vector<int64_t> ranks) {
  Request r;
  r.kind = OpKind::kAddNamedProcessSet;
  r.cacheable = false;
  r.name = NameAmong("add_named_process_set." + given, ranks);
  r.splits = std::move(ranks);
  return r;
}

std::vector<int> Missing(const Tally& tally) {
  std::vector<int> missing;
  for (size_t m = 0; m < tally.presence.size(); ++m) {
    if (tally.presence[m] == Presence::kMissing) missing.push_back(static_cast<int>(m));
  }
  return missing;
}

std::vector<int> World(int size) {
  std::vector<int> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(rank);
  return ranks;
}

// The names of what is ready, each with its verdict; then forgotten.
std::vector<std::string> Verdicts(Ledger* ledger, int size) {
  std::vector<std::string> verdicts;
  for (Tally* tally : ledger->TakeReady()) {
    const Status status = Validate(*tally, World(size));
    verdicts.push_back(Shown(tally->agreed->request) + ": " +
                       (status.ok() ? "ok" : status.message()));
    ledger->Settle(tally, /*remember=*/false);
  }
  std::sort(verdicts.begin(), verdicts.end());
  return verdicts;
}

using List = std::vector<std::string>;

constexpr char kEval[] =
    "add_named_process_set 'eval': rank 0 named the ranks [0, 1], rank 1 named the ranks [0, 1, "
    "2]. "
    "All members must name the same ranks; sets of different ranks that share a rank need "
    "different names.";

TEST(Named, a_name_ends_with_its_ranks_and_gives_the_rest_back) {
  const Request request = Add("a [1] b", {0, 2});
  EXPECT_EQ(request.name, "add_named_process_set.a [1] b [0, 2]");
  EXPECT_EQ(GivenName(request), "a [1] b");
  EXPECT_EQ(Shown(request), "add_named_process_set 'a [1] b [0, 2]'");
}

TEST(Named, a_request_is_possible_only_with_ascending_ranks_of_the_job_and_their_name) {
  EXPECT_TRUE(IsPossible(Add("a", {0, 2}), 3));
  for (const std::vector<int64_t>& ranks :
       std::vector<std::vector<int64_t>>{{}, {0, 3}, {-1, 0}, {2, 0}, {1, 1}, {0, INT64_MAX}}) {
    EXPECT_FALSE(IsPossible(Add("a", ranks), 3)) << ToString(ranks);
    EXPECT_FALSE(IsPossible(Agreed{Add("a", ranks), {}}, 3)) << ToString(ranks);
  }
  EXPECT_FALSE(IsPossible(Add("", {0}), 3)) << "no name";
  Request other = Add("a", {0, 1});
  other.splits = {0, 2};
  EXPECT_FALSE(IsPossible(other, 3)) << "the name of other ranks";
  other = Add("a", {0, 1});
  other.name = "add_named_process_set.";
  EXPECT_FALSE(IsPossible(other, 3)) << "no name at all";
}

TEST(Named, only_the_ranks_that_it_names_are_waited_for) {
  Ledger ledger(4, 10);
  EXPECT_TRUE(ledger.Add(3, Add("a", {1, 3}), 1));
  ASSERT_EQ(ledger.pending().size(), 1u);
  EXPECT_EQ(Missing(*ledger.pending()[0]), (std::vector<int>{1}));
  EXPECT_FALSE(ledger.Add(2, Add("a", {1, 3}), 1)) << "is not named";
  EXPECT_FALSE(ledger.Add(3, Add("a", {1, 3}), 1)) << "asked twice";
  EXPECT_TRUE(ledger.Add(1, Add("a", {1, 3}), 2));
  EXPECT_EQ(Verdicts(&ledger, 4), List{"add_named_process_set 'a [1, 3]': ok"});
  EXPECT_TRUE(ledger.Add(2, Add("a", {2}), 3)) << "one rank alone";
  EXPECT_EQ(Verdicts(&ledger, 4), List{"add_named_process_set 'a [2]': ok"});
}

TEST(Named, one_name_serves_sets_of_disjoint_ranks_at_a_time) {
  Ledger ledger(4, 10);
  EXPECT_TRUE(ledger.Add(0, Add("row", {0, 1}), 0));
  EXPECT_TRUE(ledger.Add(2, Add("row", {2, 3}), 0));
  EXPECT_TRUE(ledger.Add(3, Add("row", {2, 3}), 0));
  EXPECT_TRUE(ledger.Add(1, Add("row", {0, 1}), 0));
  EXPECT_EQ(Verdicts(&ledger, 4), (List{"add_named_process_set 'row [0, 1]': ok",
                                        "add_named_process_set 'row [2, 3]': ok"}));
}

TEST(Named, ranks_that_contradict_each_other_are_told_at_once_and_a_late_one_when_it_asks) {
  Ledger ledger(3, 10);
  EXPECT_TRUE(ledger.Add(0, Add("eval", {0, 1}), 0));
  EXPECT_TRUE(ledger.Add(1, Add("eval", {0, 1, 2}), 0));
  const List both = {std::string("add_named_process_set 'eval [0, 1, 2]': ") + kEval,
                     std::string("add_named_process_set 'eval [0, 1]': ") + kEval};
  EXPECT_EQ(Verdicts(&ledger, 3), both);
  EXPECT_TRUE(ledger.pending().empty());
  EXPECT_TRUE(ledger.Add(2, Add("eval", {1, 2}), 0)) << "in a third way";
  EXPECT_EQ(Verdicts(&ledger, 3),
            List{std::string("add_named_process_set 'eval [1, 2]': ") + kEval});
  // Once: then the ranks may agree.
  for (const int member : {2, 0, 1}) EXPECT_TRUE(ledger.Add(member, Add("eval", {0, 1, 2}), 0));
  EXPECT_EQ(Verdicts(&ledger, 3), List{"add_named_process_set 'eval [0, 1, 2]': ok"});
}

TEST(Named, a_member_that_asks_before_the_error_is_sent_gets_it_once) {
  Ledger ledger(3, 10);
  EXPECT_TRUE(ledger.Add(0, Add("eval", {0, 1}), 0));
  EXPECT_TRUE(ledger.Add(1, Add("eval", {0, 1, 2}), 0));
  EXPECT_TRUE(ledger.Add(2, Add("eval", {0, 1, 2}), 0));
  EXPECT_FALSE(ledger.Add(2, Add("eval", {0, 1, 2}), 0)) << "asked twice";
  EXPECT_EQ(Verdicts(&ledger, 3).size(), 2u);
  for (const int member : {2, 0, 1}) EXPECT_TRUE(ledger.Add(member, Add("eval", {0, 1, 2}), 0));
  EXPECT_EQ(Verdicts(&ledger, 3), List{"add_named_process_set 'eval [0, 1, 2]': ok"});
}

TEST(Named, a_set_of_one_rank_contradicts_another_ranks_larger_set) {
  Ledger ledger(2, 10);
  EXPECT_TRUE(ledger.Add(1, Add("a", {0, 1}), 0));
  EXPECT_TRUE(ledger.Add(0, Add("a", {0}), 0));
  const List verdicts = Verdicts(&ledger, 2);
  ASSERT_EQ(verdicts.size(), 2u);
  for (const std::string& verdict : verdicts) {
    EXPECT_NE(verdict.find("rank 0 named the ranks [0], rank 1 named the ranks [0, 1]."),
              std::string::npos)
        << verdict;
  }
  EXPECT_TRUE(ledger.pending().empty());
}

TEST(Named, a_name_is_in_use_for_ranks_that_share_one_with_its_set) {
  Ledger ledger(4, 10);
  const auto exists = [](const std::string& shown, const std::string& asked) {
    return List{shown +
                ": process set 'a' of the ranks [0, 1] exists already, so that there can "
                "be none of this name with the ranks " +
                asked + ". Use it, remove it, or choose another name"};
  };
  ledger.Perform(Add("a", {0, 1}));
  EXPECT_TRUE(ledger.Add(1, Add("a", {1, 2}), 0));
  EXPECT_EQ(Verdicts(&ledger, 4), exists("add_named_process_set 'a [1, 2]'", "[1, 2]"));
  EXPECT_TRUE(ledger.Add(2, Add("a", {1, 2}), 0)) << "the other member, too";
  EXPECT_EQ(Verdicts(&ledger, 4), exists("add_named_process_set 'a [1, 2]'", "[1, 2]"));
  EXPECT_TRUE(ledger.Add(2, Add("a", {2}), 0)) << "shares no rank";
  EXPECT_EQ(Verdicts(&ledger, 4), List{"add_named_process_set 'a [2]': ok"});
  Request removal = Add("a", {0, 1});
  removal.kind = OpKind::kRemoveNamedProcessSet;
  removal.name = NameAmong("remove_named_process_set.a", removal.splits);
  ledger.Perform(removal);
  EXPECT_TRUE(ledger.Add(1, Add("a", {1, 2}), 0));
  EXPECT_TRUE(ledger.Add(2, Add("a", {1, 2}), 0));
  EXPECT_EQ(Verdicts(&ledger, 4), List{"add_named_process_set 'a [1, 2]': ok"});
}

TEST(Named, other_names_and_other_kinds_contradict_nothing) {
  Ledger ledger(3, 10);
  Request removal = Add("a", {0, 1, 2});
  removal.kind = OpKind::kRemoveNamedProcessSet;
  removal.name = NameAmong("remove_named_process_set.a", removal.splits);
  EXPECT_TRUE(ledger.Add(0, Add("a", {0, 1}), 0));
  EXPECT_TRUE(ledger.Add(1, Add("b", {0, 1, 2}), 0));
  EXPECT_TRUE(ledger.Add(1, removal, 0));
  EXPECT_TRUE(ledger.TakeReady().empty());
  EXPECT_EQ(ledger.pending().size(), 3u);
}

TEST(Named, a_joined_rank_is_missed_only_where_it_is_named) {
  Ledger ledger(3, 10);
  Request join;
  join.kind = OpKind::kJoin;
  join.name = "join";
  EXPECT_TRUE(ledger.Add(2, join, 0));
  EXPECT_TRUE(ledger.Add(0, Add("a", {0}), 0));
  EXPECT_TRUE(ledger.Add(1, Add("b", {1, 2}), 0));
  EXPECT_EQ(Verdicts(&ledger, 3),
            (List{"add_named_process_set 'a [0]': ok",
                  "add_named_process_set 'b [1, 2]': add_named_process_set 'b [1, 2]': not "
                  "possible after rank 2 called join()."}));
}

}  // namespace
}  // namespace hvdlite::engine
