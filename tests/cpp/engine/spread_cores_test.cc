#include "engine/spread_cores.h"

#include <gtest/gtest.h>

#include <vector>

namespace hvdlite::engine {
namespace {

cpu_set_t Set(const std::vector<int>& processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int processor : processors) CPU_SET(processor, &set);
  return set;
}

TEST(MustMove, table) {
  const std::vector<int> none;
  struct Row {
    std::vector<int> allowed, seen;
    int me;
    std::vector<int> to;  // empty: stays
  };
  const Row rows[] = {
      {{0, 1}, {0, 0}, 1, {1}},
      {{0, 1}, {0, 0}, 0, none},  // the mate moves
      {{0, 1}, {0, 1}, 1, none},  // each has its own
      {{0, 1}, {1, 1}, 1, {0}},
      {{0}, {0, 0}, 1, none},        // bound
      {{0, 1}, {0, 1, 1}, 2, none},  // fewer processors than ranks
      {{0, 1, 2, 3}, {2, 3, 2}, 2, {0, 1}},
      {{0, 1, 2, 3}, {-1, 2, 2}, 2, {0, 1, 3}},  // one has not waited yet
      {{0, 1, 2}, {-1, -1, -1}, 2, none},
      {{4, 5}, {0, 0}, 1, {4, 5}},
      {{0, 1}, {5000, 5000}, 1, {0, 1}},  // beyond what a mask holds
  };
  for (const Row& row : rows) {
    cpu_set_t to = Set({});
    EXPECT_EQ(MustMove(Set(row.allowed), row.seen, row.me, &to), !row.to.empty()) << &row - rows;
    if (row.to.empty()) continue;
    const cpu_set_t expected = Set(row.to);
    EXPECT_TRUE(CPU_EQUAL(&to, &expected)) << &row - rows;
  }
}

class ApartTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(sched_getaffinity(0, sizeof(allowed_), &allowed_), 0);
    if (CPU_COUNT(&allowed_) < 2) GTEST_SKIP() << "one processor";
    ASSERT_TRUE(transport::shm::HostSegment::Create(2, &segment_).ok());
  }
  void TearDown() override { sched_setaffinity(0, sizeof(allowed_), &allowed_); }

  // The mate is where this thread is.
  void Meet() { segment_->line(0).processor = sched_getcpu(); }

  cpu_set_t allowed_;
  std::unique_ptr<transport::shm::HostSegment> segment_;
};

TEST_F(ApartTest, whoever_shares_a_processor_leaves_it_and_may_run_where_it_might_before) {
  SpreadCores spread(segment_.get(), 1, /*enabled=*/true);
  bool moved = false;
  for (Nanos now = kSecond; !moved;
       now += kSecond) {  // the kernel may move this thread between the two lines
    Meet();
    moved = spread.Move(now);
  }
  EXPECT_NE(segment_->line(1).processor, segment_->line(0).processor);
  EXPECT_EQ(spread.moves(), 1u);
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&after, &allowed_));
}

TEST_F(ApartTest, nobody_moves_who_is_the_first_or_alone_or_told_to_stay) {
  SpreadCores first(segment_.get(), 0, true), told(segment_.get(), 1, false);
  segment_->line(0).processor = -1;
  SpreadCores alone(segment_.get(), 1, true);
  for (int i = 1; i <= 100; ++i) EXPECT_FALSE(alone.Move(i * kSecond));
  for (int i = 1; i <= 100; ++i) {
    Meet();
    segment_->line(1).processor = sched_getcpu();
    EXPECT_FALSE(first.Move(i * kSecond));
    EXPECT_FALSE(told.Move(i * kSecond));
  }
}

}  // namespace
}  // namespace hvdlite::engine
