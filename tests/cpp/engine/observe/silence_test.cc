#include "engine/observe/silence.h"

#include <gtest/gtest.h>

namespace hvdlite::engine {
namespace {

constexpr Nanos kTick = 200 * kMillisecond;
constexpr Nanos kLongestStep = 3 * kTick;
constexpr Nanos kBegin = 1000 * kSecond;
constexpr int kPeer = 7, kOther = 8;

class SilencesTest : public ::testing::Test {
 protected:
  SilencesTest() { silences.Look(now); }
  // Time passes, and this rank looks.
  void Pass(Nanos span) { silences.Look(now += span); }

  Nanos now = kBegin;
  Silences silences{kLongestStep};
};

TEST_F(SilencesTest, lasts_from_the_last_sign_on) {
  EXPECT_EQ(silences.Of(kPeer, 1), 0);
  for (int tick = 1; tick <= 10; ++tick) {
    Pass(kTick);
    EXPECT_EQ(silences.Of(kPeer, 1), tick * kTick);
  }
}

// Where the way to a peer is down, its silence says nothing about it.
TEST_F(SilencesTest, counts_only_while_a_sign_could_have_been_heard) {
  silences.Of(kPeer, 1);
  Pass(kTick);
  EXPECT_EQ(silences.Of(kPeer, 1), kTick);
  for (int tick = 0; tick < 100; ++tick) {
    Pass(kTick);
    EXPECT_EQ(silences.Of(kPeer, 1, /*counts=*/false), kTick);
  }
  Pass(kTick);
  EXPECT_EQ(silences.Of(kPeer, 1), 2 * kTick);
}

TEST_F(SilencesTest, ends_with_every_sign) {
  silences.Of(kPeer, 1);
  for (uint64_t sign = 2; sign < 100; ++sign) {
    Pass(kTick);
    EXPECT_EQ(silences.Of(kPeer, sign), 0);
    Pass(kTick);
    EXPECT_EQ(silences.Of(kPeer, sign), kTick);
  }
}

TEST_F(SilencesTest, of_one_is_not_that_of_another) {
  silences.Of(kPeer, 1);
  silences.Of(kOther, 1);
  Pass(kTick);
  EXPECT_EQ(silences.Of(kPeer, 1), kTick);
  EXPECT_EQ(silences.Of(kOther, 2), 0);
}

TEST_F(SilencesTest, of_somebody_who_never_gave_a_sign_counts_from_the_first_look) {
  Pass(kTick);
  EXPECT_EQ(silences.Of(kPeer, 0), kTick);
  Pass(kTick);
  EXPECT_EQ(silences.Of(kPeer, 0), 2 * kTick);
}

// A laptop's lid, a suspended virtual machine: all have slept, and this rank wakes first.
TEST_F(SilencesTest, does_not_count_the_time_in_which_this_rank_did_not_look) {
  silences.Of(kPeer, 1);
  Pass(3600 * kSecond);
  EXPECT_EQ(silences.Of(kPeer, 1), kLongestStep);
  Pass(kTick);
  EXPECT_EQ(silences.Of(kPeer, 1), kLongestStep + kTick);
  Pass(kTick);
  EXPECT_EQ(silences.Of(kPeer, 2), 0);
}

TEST_F(SilencesTest, is_as_long_for_a_rank_that_looks_rarely) {
  silences.Of(kPeer, 1);
  for (int look = 1; look <= 10; ++look) {
    Pass(kLongestStep);
    EXPECT_EQ(silences.Of(kPeer, 1), look * kLongestStep);
  }
}

}  // namespace
}  // namespace hvdlite::engine
