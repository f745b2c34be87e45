#include "engine/observe/stall.h"

#include <gtest/gtest.h>

#include "engine/negotiate/ledger.h"

namespace hvdlite::engine {
namespace {

constexpr Nanos kFirstAsked = 1000 * kSecond;

class StallTest : public ::testing::Test {
 protected:
  void Ask(int member, OpKind kind, const std::string& name, Nanos when = kFirstAsked) {
    Request request;
    request.kind = kind;
    request.name = std::string(Name(kind)) + "." + name;
    request.shape = {4};
    ASSERT_TRUE(ledger.Add(member, request, when));
  }
  static Request JoinRequest() {
    Request request;
    request.kind = OpKind::kJoin;
    request.name = "join";
    return request;
  }
  StallReport After(Nanos span) {
    return InspectStalls(ledger.pending(), {4, 5, 7}, kFirstAsked + span, {});
  }
  bool Says(const std::string& words) {
    return After(61 * kSecond).warning.find(words) != std::string::npos;
  }

  Ledger ledger{3, 10};
};

TEST_F(StallTest, is_reported_once_an_operation_has_waited_too_long) {
  Ask(0, OpKind::kAllreduce, "a");
  Ask(2, OpKind::kAllreduce, "a");
  EXPECT_EQ(After(59 * kSecond).warning, "");
  const StallReport report = After(60 * kSecond);
  EXPECT_NE(report.warning.find("Missing ranks:\n5: [allreduce.a]"), std::string::npos)
      << report.warning;
  ASSERT_EQ(report.operations.size(), 1u);
  const StalledOperation& a = report.operations[0];
  EXPECT_EQ(a.missing, std::vector<int>{5});
  EXPECT_EQ(a.asked, (std::vector<int>{4, 7}));
  EXPECT_EQ(a.shown, "allreduce 'a'");
  EXPECT_EQ(a.name, "allreduce.a");
  EXPECT_EQ(a.plain, " 'a'");
  EXPECT_EQ(a.age, 60 * kSecond);
  EXPECT_EQ(report.warning.find("Different operations"), std::string::npos);
}

TEST_F(StallTest, lists_first_what_is_stalled_and_what_most_ranks_have_asked_for) {
  Ask(0, OpKind::kAllreduce, "young", kFirstAsked + 60 * kSecond);
  Ask(1, OpKind::kAllreduce, "young", kFirstAsked + 60 * kSecond);
  Ask(0, OpKind::kAllreduce, "old");
  Ask(1, OpKind::kAllreduce, "older", kFirstAsked - kSecond);
  Ask(0, OpKind::kAllreduce, "of two", kFirstAsked);
  Ask(2, OpKind::kAllreduce, "of two", kFirstAsked);
  std::vector<std::string> names;
  for (const StalledOperation& each : After(60 * kSecond).operations) names.push_back(each.name);
  EXPECT_EQ(names, (std::vector<std::string>{"allreduce.of two", "allreduce.older", "allreduce.old",
                                             "allreduce.young"}));
}

TEST_F(StallTest, does_not_miss_a_rank_that_has_joined) {
  Ask(2, OpKind::kAllreduce, "a");
  ASSERT_TRUE(ledger.Add(1, JoinRequest(), kFirstAsked));
  EXPECT_EQ(After(60 * kSecond).operations[0].missing, std::vector<int>{4});
}

TEST_F(StallTest, names_different_operations_that_ranks_have_submitted_under_one_name) {
  Ask(0, OpKind::kAllreduce, "other");
  Ask(1, OpKind::kAllgather, "grads", kFirstAsked + kSecond);
  Ask(0, OpKind::kAllreduce, "grads", kFirstAsked + 2 * kSecond);  // not yet stalled itself
  Ask(2, OpKind::kAllreduce, "grads", kFirstAsked + 3 * kSecond);
  EXPECT_TRUE(
      Says("under one name: allgather 'grads' on rank 5, allreduce 'grads' on ranks 4 and 7."));
}

TEST_F(StallTest, says_nothing_of_that_where_a_rank_has_submitted_both) {
  Ask(0, OpKind::kAllreduce, "grads");
  Ask(0, OpKind::kAllgather, "grads");
  Ask(1, OpKind::kAllgather, "grads");
  EXPECT_TRUE(Says("Missing ranks"));
  EXPECT_FALSE(Says("Different operations"));
}

}  // namespace
}  // namespace hvdlite::engine
