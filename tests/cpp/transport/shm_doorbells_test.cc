// Doorbells: nobody sleeps through news. Every sleep here may last so long that a lost wake-up is a
// failure, not a delay.
#include "transport/shm/doorbells.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "testing/watchdog.h"

namespace hvdlite::transport::shm {
namespace {

constexpr Nanos kVeryLong = 30 * kSecond;

class DoorbellsTest : public ::testing::TestWithParam<bool> {
 protected:
  void Open(int ranks) {
    ASSERT_TRUE(HostSegment::Create(ranks, &segment_).ok());
    for (int r = 0; GetParam() && r < ranks; ++r)
      eventfds_.push_back(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    for (int r = 0; r < ranks; ++r)
      bells_.push_back(std::make_unique<Doorbells>(segment_.get(), r, eventfds_));
  }
  void TearDown() override {
    for (int fd : eventfds_) close(fd);
  }
  // Sleeps until `news` is no longer `seen`; false if nobody rang.
  bool Await(int rank, const std::atomic<uint64_t>& news, uint64_t seen) {
    Doorbells& bells = *bells_[static_cast<size_t>(rank)];
    while (news.load(std::memory_order_seq_cst) == seen) {
      const uint32_t ticket = bells.BeginSleep();
      FutexResult result = FutexResult::kWoken;
      if (news.load(std::memory_order_seq_cst) == seen) {
        std::vector<pollfd> fds;
        result = bells.Sleep(ticket, &fds, kVeryLong);
      }
      bells.EndSleep();
      if (result == FutexResult::kTimeout && news.load(std::memory_order_seq_cst) == seen)
        return true;  // no news, no loss
      if (result == FutexResult::kTimeout) return false;
    }
    return true;
  }

  std::unique_ptr<HostSegment> segment_;
  std::vector<int> eventfds_;
  std::vector<std::unique_ptr<Doorbells>> bells_;
};

TEST_P(DoorbellsTest, two_ranks_wake_each_other_for_a_long_time) {
  Open(2);
  const testing::Watchdog watchdog(120);
  std::atomic<uint64_t> ball[2] = {{0}, {0}};
  constexpr uint64_t kRounds = 20000;
  std::thread other([&] {
    for (uint64_t i = 0; i < kRounds; ++i) {
      ASSERT_TRUE(Await(1, ball[1], i)) << i;
      ball[0].store(i + 1, std::memory_order_seq_cst);
      bells_[1]->Ring(0);
    }
  });
  for (uint64_t i = 0; i < kRounds; ++i) {
    ball[1].store(i + 1, std::memory_order_seq_cst);
    bells_[0]->Ring(1);
    ASSERT_TRUE(Await(0, ball[0], i)) << i;
  }
  other.join();
}

// The driver and the background thread of a rank may sleep on the same bell.
TEST_P(DoorbellsTest, several_sleepers_of_one_rank_all_hear_the_bell) {
  Open(2);
  const testing::Watchdog watchdog(120);
  std::atomic<uint64_t> news{0};
  constexpr int kSleepers = 3;
  constexpr uint64_t kRounds = 5000;
  std::atomic<uint64_t> heard[kSleepers] = {};
  std::atomic<int> lost{0};
  std::vector<std::thread> sleepers;
  for (int s = 0; s < kSleepers; ++s) {
    sleepers.emplace_back([&, s] {
      std::mt19937 random(static_cast<uint32_t>(s));
      for (uint64_t seen = 0; seen < kRounds;) {
        if (!Await(1, news, seen)) ++lost;
        seen = news.load(std::memory_order_seq_cst);
        heard[s] = seen;
        if (random() % 16 == 0) usleep(random() % 100);
      }
    });
  }
  for (uint64_t i = 1; i <= kRounds; ++i) {
    news.store(i, std::memory_order_seq_cst);
    bells_[0]->Ring(1);
    for (int s = 0; s < kSleepers; ++s) {
      while (heard[s] < i) sched_yield();
    }
  }
  for (std::thread& sleeper : sleepers) sleeper.join();
  EXPECT_EQ(lost, 0) << "a sleeper was not woken by the ring that another one heard";
}

TEST_P(DoorbellsTest, a_sleep_ends_in_time_when_nobody_rings) {
  Open(2);
  const uint32_t ticket = bells_[0]->BeginSleep();
  std::vector<pollfd> fds;
  const Nanos start = MonotonicNow();
  EXPECT_EQ(bells_[0]->Sleep(ticket, &fds, 30 * kMillisecond), FutexResult::kTimeout);
  EXPECT_GE(MonotonicNow() - start, 29 * kMillisecond);
  bells_[0]->EndSleep();
}

TEST_P(DoorbellsTest, a_ring_between_the_announcement_and_the_sleep_is_not_lost) {
  Open(2);
  for (int i = 0; i < 1000; ++i) {
    const uint32_t ticket = bells_[0]->BeginSleep();
    bells_[1]->Ring(0);
    std::vector<pollfd> fds;
    EXPECT_NE(bells_[0]->Sleep(ticket, &fds, kVeryLong), FutexResult::kTimeout);
    bells_[0]->EndSleep();
  }
  // And none is left over that would keep the next sleep short.
  const uint32_t ticket = bells_[0]->BeginSleep();
  std::vector<pollfd> fds;
  EXPECT_EQ(bells_[0]->Sleep(ticket, &fds, 20 * kMillisecond), FutexResult::kTimeout);
  bells_[0]->EndSleep();
}

TEST_P(DoorbellsTest, rings_while_nobody_sleeps_cost_nothing_and_leave_nothing) {
  Open(2);
  for (int i = 0; i < 100; ++i) bells_[1]->RingEveryone();
  EXPECT_EQ(segment_->line(0).bell.load(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Kinds, DoorbellsTest, ::testing::Values(false, true),
                         [](const auto& p) { return p.param ? "eventfd" : "futex"; });

}  // namespace
}  // namespace hvdlite::transport::shm
