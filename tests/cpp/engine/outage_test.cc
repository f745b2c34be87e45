#include "engine/outage.h"

#include <gtest/gtest.h>

#include "engine/observe/silence.h"

namespace hvdlite::engine {
namespace {

using Acked = transport::Transport::Acknowledged;

constexpr Nanos kBetweenLooks = 200 * kMillisecond;
constexpr Nanos kHeartbeatLimit = 10 * kSecond;

// A connection on which something is sent each tick; what a kernel that repeats it ever more rarely
// makes of an outage.
class RetryingWay {
 public:
  // The next tick. During an outage nothing is acknowledged, and after it nothing before the next
  // attempt.
  Acked Tick(Nanos now, bool up) {
    ++sent_;
    if (now < next_attempt_) return {true, acknowledged_, true};
    if (up) {
      acknowledged_ = sent_ - 1;
      pause_ = kBetweenLooks;
      next_attempt_ = 0;
    } else {
      next_attempt_ = now + pause_;
      pause_ *= 2;
    }
    return {true, acknowledged_, true};
  }

 private:
  uint64_t sent_ = 0;
  uint64_t acknowledged_ = 0;
  Nanos pause_ = kBetweenLooks;
  Nanos next_attempt_ = 0;
};

class OutagesTest : public ::testing::Test {
 protected:
  OutagesTest() { outages.Look(now); }
  Nanos After(Nanos span, Acked seen) {
    outages.Look(now += span);
    return outages.Of(&connection, seen);
  }

  Nanos now = 1000 * kSecond;
  const int connection = 0;
  Outages outages{3 * kBetweenLooks};
};

TEST_F(OutagesTest, lasts_while_something_is_sent_and_nothing_is_acknowledged) {
  EXPECT_EQ(After(kBetweenLooks, {true, 5, true}), 0);
  for (int tick = 1; tick <= 10; ++tick)
    EXPECT_EQ(After(kBetweenLooks, {true, 5, true}), tick * kBetweenLooks);
  EXPECT_FALSE(outages.Open(&connection));
  EXPECT_EQ(After(kBetweenLooks, {true, 6, true}), 0);
  EXPECT_TRUE(outages.Open(&connection));
}

// A peer that reads nothing, because a third one keeps it waiting, acknowledges nevertheless.
TEST_F(OutagesTest, is_none_where_nothing_is_on_its_way_or_nothing_can_be_known) {
  for (int tick = 0; tick < 10; ++tick) EXPECT_EQ(After(kBetweenLooks, {true, 5, false}), 0);
  for (int tick = 0; tick < 10; ++tick) EXPECT_EQ(After(kBetweenLooks, {}), 0);
  EXPECT_TRUE(outages.Open(&connection));
  const int unheard_of = 0;
  EXPECT_TRUE(outages.Open(&unheard_of));
}

TEST_F(OutagesTest, does_not_count_the_time_in_which_this_rank_did_not_look) {
  After(kBetweenLooks, {true, 5, true});
  EXPECT_EQ(After(3600 * kSecond, {true, 5, true}), 3 * kBetweenLooks);
}

TEST_F(OutagesTest, of_a_connection_that_is_gone_is_forgotten) {
  After(kBetweenLooks, {true, 5, true});
  EXPECT_GT(After(kBetweenLooks, {true, 5, true}), 0);
  outages.Look(now += kBetweenLooks);
  outages.Look(now += kBetweenLooks);
  EXPECT_TRUE(outages.Open(&connection));
}

// The promise of HVDLITE_HEARTBEAT_SECONDS: of all outages that are shorter, none ends a job,
// neither as an outage nor as the silence of a peer whose words begin to come again later than this
// rank's.
TEST(Outage, that_is_shorter_than_the_heartbeats_limit_is_survived_whenever_the_kernels_try_again) {
  for (Nanos span = kBetweenLooks; span < kHeartbeatLimit; span += kBetweenLooks) {
    for (const Nanos begin :
         {10 * kBetweenLooks, 10 * kBetweenLooks + kBetweenLooks / 3, 11 * kBetweenLooks}) {
      RetryingWay there, back;
      Outages outages(3 * kBetweenLooks);
      Silences silences(3 * kBetweenLooks);
      uint64_t heard = 1;
      const int connection = 0;
      for (Nanos now = kBetweenLooks; now < 4 * kHeartbeatLimit; now += kBetweenLooks) {
        const bool up = now < begin || now >= begin + span;
        outages.Look(now);
        silences.Look(now);
        ASSERT_LT(outages.Of(&connection, there.Tick(now, up)), LongestOutage(kHeartbeatLimit))
            << span / kMillisecond;
        // The peer's words: it began to repeat them a little later.
        const uint64_t before = heard;
        heard = 1 + back.Tick(now, up || now < begin + kBetweenLooks).bytes;
        ASSERT_GE(heard, before);
        ASSERT_LT(silences.Of(1, heard, outages.Open(&connection)), kHeartbeatLimit)
            << span / kMillisecond;
      }
    }
  }
}

TEST(Outage, that_never_ends_is_told_after_a_little_more_than_twice_the_limit) {
  RetryingWay way;
  Outages outages(3 * kBetweenLooks);
  const int connection = 0;
  Nanos told = 0;
  for (Nanos now = kBetweenLooks; told == 0; now += kBetweenLooks) {
    ASSERT_LT(now, 10 * kHeartbeatLimit);
    outages.Look(now);
    if (outages.Of(&connection, way.Tick(now, false)) >= LongestOutage(kHeartbeatLimit)) told = now;
  }
  EXPECT_LE(told, 2 * kHeartbeatLimit + 2 * kSecond);
}

// A process that is stopped: its kernel acknowledges, and it says nothing.
TEST(Outage, is_not_what_a_frozen_peer_looks_like) {
  RetryingWay way;
  Outages outages(3 * kBetweenLooks);
  Silences silences(3 * kBetweenLooks);
  const int connection = 0;
  Nanos silent = 0;
  for (Nanos now = kBetweenLooks; now <= kHeartbeatLimit + kBetweenLooks; now += kBetweenLooks) {
    outages.Look(now);
    silences.Look(now);
    EXPECT_EQ(outages.Of(&connection, way.Tick(now, true)), 0);
    silent = silences.Of(1, 1, outages.Open(&connection));
  }
  EXPECT_GE(silent, kHeartbeatLimit);
}

}  // namespace
}  // namespace hvdlite::engine
