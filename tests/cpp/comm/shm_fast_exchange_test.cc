// Fast exchanges: each is complete for all members or for none, in any order of arrivals and
// withdrawals. A complete one shows each member what all others have brought. All members use one
// mapping, so that ThreadSanitizer sees every access.
#include "comm/shm/fast_exchange.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "testing/in_threads.h"
#include "testing/watchdog.h"

namespace hvdlite::comm::shm {
namespace {

// The members of one exchange.
class Members {
 public:
  explicit Members(int count)
      : memory_(static_cast<char*>(aligned_alloc(4096, Rounded(FastExchange::Footprint(count)))),
                &free) {
    memset(memory_.get(), 0, FastExchange::Footprint(count));
    for (int m = 0; m < count; ++m)
      all_.push_back(std::make_unique<FastExchange>(memory_.get(), m, count));
  }
  FastExchange& operator[](int m) { return *all_[static_cast<size_t>(m)]; }

 private:
  static size_t Rounded(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }
  std::unique_ptr<char, decltype(&free)> memory_;
  std::vector<std::unique_ptr<FastExchange>> all_;
};

TEST(FastExchange, is_complete_when_the_last_member_has_arrived) {
  Members member(3);
  EXPECT_FALSE(member[0].Arrive({7, 1}));
  EXPECT_FALSE(member[2].Arrive({7, 1}));
  EXPECT_FALSE(member[0].Complete());
  EXPECT_TRUE(member[1].Arrive({7, 1}));
  for (int m = 0; m < 3; ++m) {
    EXPECT_TRUE(member[m].Complete());
    EXPECT_TRUE(member[m].Agrees());
    EXPECT_FALSE(member[m].Withdraw());
  }
}

TEST(FastExchange, goes_on_after_a_member_has_withdrawn) {
  Members member(2);
  EXPECT_FALSE(member[0].Arrive({7, 1}));
  EXPECT_TRUE(member[0].Withdraw());
  EXPECT_FALSE(member[1].Arrive({7, 1}));
  EXPECT_TRUE(member[0].Arrive({7, 1}));
  EXPECT_TRUE(member[1].Complete());
}

TEST(FastExchange, shows_all_members_that_their_topics_differ) {
  for (const FastExchange::Topic other : {FastExchange::Topic{8, 1}, FastExchange::Topic{7, 2}}) {
    Members member(2);
    member[0].Arrive({7, 1});
    EXPECT_TRUE(member[1].Arrive(other));
    for (int m = 0; m < 2; ++m) {
      EXPECT_FALSE(member[m].Agrees());
      member[m].Conclude();
    }
    member[0].Arrive({9, 2});
    EXPECT_TRUE(member[1].Arrive({9, 2}));
    EXPECT_TRUE(member[0].Agrees() && member[1].Agrees());
  }
}

TEST(FastExchange, tells_that_a_member_negotiates) {
  Members member(2);
  EXPECT_FALSE(member[0].SomeElsewhere());
  member[1].SetElsewhere(true);
  EXPECT_TRUE(member[0].SomeElsewhere());
  EXPECT_FALSE(member[1].SomeElsewhere());
  member[1].SetElsewhere(false);
  EXPECT_FALSE(member[0].SomeElsewhere());
}

TEST(FastExchange, small_and_large_tensors_have_room) {
  Members member(2);
  for (const size_t bytes : {size_t{1}, size_t{48}, size_t{49}, FastExchange::kMostBytes}) {
    for (int m = 0; m < 2; ++m) memset(member[m].Tensor(m, bytes), 'a' + m, bytes);
    member[0].Arrive({1, 1});
    member[1].Arrive({1, 1});
    for (int m = 0; m < 2; ++m) {
      EXPECT_TRUE(member[m].Agrees());
      EXPECT_EQ(member[m].Tensor(1 - m, bytes)[bytes - 1], 'b' - m);
      member[m].Conclude();
    }
  }
}

class ManyFastExchanges : public ::testing::TestWithParam<int> {};

// Members arrive with the number of the exchange that they attend, and some lose their patience.
TEST_P(ManyFastExchanges, are_complete_for_all_or_for_none) {
  const int count = GetParam();
  constexpr uint64_t kExchanges = 3000;
  Members member(count);
  const testing::Watchdog watchdog(60, [] { return std::string("an exchange never completes"); });
  std::atomic<bool> failed{false};  // a member that has left is waited for for ever
  std::vector<uint64_t> withdrawn(static_cast<size_t>(count));
  InThreads(count, [&](int me) {
    std::minstd_rand random(static_cast<unsigned>(me + 1));
    FastExchange& exchange = member[me];
    for (uint64_t number = 1; number <= kExchanges && !failed;) {
      // All members of an exchange bring the same size: it follows from the number.
      const size_t agreed = number % 2 == 0 ? 8 : 800;
      const uint64_t mine = number * 100 + static_cast<uint64_t>(me);
      memcpy(exchange.Tensor(me, agreed) + agreed - 8, &mine, 8);
      bool complete = exchange.Arrive({number, number});
      for (size_t patience = random() % 2 == 0 ? 8 : 800; !complete && patience > 0; --patience) {
        complete = exchange.Complete();
        if (!complete && patience % 16 == 0) sched_yield();
      }
      if (!complete && exchange.Withdraw()) {
        ++withdrawn[static_cast<size_t>(me)];
        continue;
      }
      bool right = exchange.Agrees();
      for (int m = 0; m < count; ++m) {
        uint64_t theirs = 0;
        memcpy(&theirs, exchange.Tensor(m, agreed) + agreed - 8, 8);
        right &= theirs == number * 100 + static_cast<uint64_t>(m);
      }
      EXPECT_TRUE(right) << "exchange " << number;
      if (!right) failed = true;
      exchange.Conclude();
      ++number;
    }
  });
  uint64_t all = 0;
  for (const uint64_t each : withdrawn) all += each;
  EXPECT_GT(all, 0u) << "no member has withdrawn: this has tested little";
}

INSTANTIATE_TEST_SUITE_P(OfMembers, ManyFastExchanges, ::testing::Values(2, 3, 5));

}  // namespace
}  // namespace hvdlite::comm::shm
