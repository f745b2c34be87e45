// Agreement: the root keeps operations back while its device would not begin them.
#include <gtest/gtest.h>

#include "engine/negotiate/tree.h"

namespace hvdlite::engine {
namespace {

constexpr Nanos kLongest = 5 * kMillisecond;

Request Gradient(const std::string& name, int64_t elements = 4) {
  Request request = Sum(name, {elements});
  request.device = DeviceKind::kCuda;
  return request;
}

class AgreementGather : public ::testing::Test {
 protected:
  AgreementGather()
      : tree_(3, 2, 100, false, [this](AgreementOptions* options) {
          options->keeps = [this](const Readiness& readiness, Nanos now) {
            first_ = readiness.ready[0]->name;
            more_ = readiness.more;
            return gathering_.Keeps(readiness, now, [this] { return behind_; });
          };
        }) {}

  void AllAsk(const Request& request) {
    for (int m = 0; m < tree_.size(); ++m) ASSERT_TRUE(tree_[m].Ask(request).ok());
    tree_.Settle();
  }
  size_t decided() {
    tree_.ExpectEqualHistories();
    return tree_[0].history.size();
  }

  bool behind_ = true;
  Gathering gathering_{{.enough = 1000, .longest = kLongest}};
  std::string first_;
  bool more_ = false;
  Tree tree_;
};

TEST_F(AgreementGather, decides_all_at_once_when_the_device_is_there) {
  tree_.now = kSecond;
  for (const char* name : {"a", "b", "c"}) AllAsk(Gradient(name));
  EXPECT_EQ(decided(), 0U);
  EXPECT_TRUE(gathering_.keeps());
  EXPECT_EQ(first_, "a");
  EXPECT_FALSE(more_);
  ASSERT_TRUE(tree_[1].Ask(Gradient("d")).ok());
  tree_.Settle();
  EXPECT_TRUE(more_);
  behind_ = false;
  tree_.Settle();
  EXPECT_EQ(decided(), 3U);
  EXPECT_EQ(tree_[0].batches, 1);
  EXPECT_FALSE(gathering_.keeps());
  for (const int m : {0, 2}) ASSERT_TRUE(tree_[m].Ask(Gradient("d")).ok());
  tree_.Settle();
  EXPECT_EQ(decided(), 4U);
}

TEST_F(AgreementGather, decides_when_there_is_enough) {
  tree_.now = kSecond;
  AllAsk(Gradient("a"));
  EXPECT_EQ(decided(), 0U);
  AllAsk(Gradient("b", 300));
  EXPECT_EQ(decided(), 2U);
  EXPECT_EQ(tree_[0].batches, 1);
}

TEST_F(AgreementGather, decides_after_the_longest_wait_which_begins_anew_for_the_next) {
  for (int round = 1; round <= 2; ++round) {
    tree_.now += kSecond;
    AllAsk(Gradient("a"));
    tree_.now += kLongest - 1;
    AllAsk(Gradient("b"));
    EXPECT_EQ(decided(), 2U * (round - 1));
    tree_.now += 1;
    tree_.Settle();
    EXPECT_EQ(decided(), 2U * round);
  }
  EXPECT_EQ(tree_[0].batches, 2);
}

TEST_F(AgreementGather, keeps_nothing_from_a_member_that_joins_or_leaves) {
  tree_.now = kSecond;
  AllAsk(Gradient("a"));
  EXPECT_EQ(decided(), 0U);
  ASSERT_TRUE(tree_[2].Ask(Joining()).ok());
  tree_.Settle();
  EXPECT_EQ(decided(), 1U);
  for (const int m : {0, 1}) ASSERT_TRUE(tree_[m].Ask(Joining()).ok());
  tree_.Settle();
  EXPECT_EQ(decided(), 2U);
  AllAsk(Gradient("b"));
  EXPECT_EQ(decided(), 2U);
  tree_[1].agreement->AnnounceShutdown(tree_.now);
  tree_.Settle();
  EXPECT_EQ(decided(), 4U);  // and then the end
  EXPECT_EQ(tree_[0].history[2].substr(0, 4), "do b");
}

}  // namespace
}  // namespace hvdlite::engine
