#include "engine/life.h"

#include <gtest/gtest.h>

#include "engine/suspicion.h"

namespace hvdlite::engine {
namespace {

TEST(Life, the_first_reason_stays_and_an_end_in_good_order_is_no_failure) {
  Life life;
  EXPECT_TRUE(life.end().ok());
  EXPECT_FALSE(life.ended());
  life.End(Status::ShutDown("over"));
  EXPECT_TRUE(life.ended());
  EXPECT_TRUE(life.failure().ok());
  life.End(Status::Internal("later"));
  EXPECT_EQ(life.end().message(), "over");
  Life failed;
  failed.End(Status::Internal("broken"));
  failed.End(Status::ShutDown("over"));
  EXPECT_EQ(failed.failure().message(), "broken");
}

TEST(Life, a_rank_announces_once_that_it_leaves_when_its_own_operations_are_done) {
  const auto done = [] { return true; };
  const auto not_done = [] { return false; };
  Life life;
  EXPECT_FALSE(life.MustAnnounce(kSecond, done));  // nobody has asked for it
  life.Leave();
  EXPECT_FALSE(life.MustAnnounce(kSecond, not_done));
  EXPECT_TRUE(life.MustAnnounce(2 * kSecond, done));
  EXPECT_FALSE(life.MustAnnounce(2 * kSecond, done));
}

TEST(Life, a_rank_that_leaves_waits_for_its_operations_no_longer_than_the_grace) {
  const auto not_done = [] { return false; };
  Life life;
  life.Leave();
  EXPECT_FALSE(life.MustAnnounce(kSecond, not_done));
  EXPECT_FALSE(life.MustAnnounce(kSecond + Life::kLeaveGrace, not_done));
  EXPECT_TRUE(life.MustAnnounce(kSecond + Life::kLeaveGrace + 1, not_done));
}

TEST(Life, what_moves_after_the_agreement_to_end_renews_the_grace) {
  Life life;
  EXPECT_FALSE(life.agreed());
  life.Agree(Status::ShutDown("over"));
  EXPECT_TRUE(life.agreed());
  EXPECT_FALSE(life.GraceIsOver(kSecond));
  EXPECT_FALSE(life.GraceIsOver(kSecond + Life::kClosingGrace));
  life.Moved();
  EXPECT_FALSE(life.GraceIsOver(2 * kSecond + Life::kClosingGrace));
  EXPECT_TRUE(life.GraceIsOver(2 * kSecond + 2 * Life::kClosingGrace + 1));
}

TEST(Suspicion, table) {
  struct Row {
    bool in_world;
    Nanos patience;
  };
  for (const Row& row : {Row{true, Suspicion::kInWorld}, Row{false, Suspicion::kInSet}}) {
    Suspicion suspicion;
    EXPECT_FALSE(suspicion.open());
    EXPECT_EQ(suspicion.Failure(kForever), nullptr);
    suspicion.Begin(Status::PeerLost(1, "first"), kSecond, row.in_world);
    suspicion.Begin(Status::PeerLost(2, "second"), 2 * kSecond, row.in_world);
    EXPECT_TRUE(suspicion.open());
    EXPECT_EQ(suspicion.Failure(kSecond + row.patience), nullptr);
    const Status* const failure = suspicion.Failure(kSecond + row.patience + 1);
    ASSERT_NE(failure, nullptr);
    EXPECT_EQ(failure->message(), "first");
  }
}

TEST(Suspicion, waits_for_a_busy_world_but_not_for_ever) {
  Suspicion suspicion;
  suspicion.Begin(Status::PeerLost(1, "gone"), 0, /*in_world=*/false);
  for (Nanos now = 0; now <= Suspicion::kLongest; now += kSecond) {
    suspicion.WaitForWorld(now);
    EXPECT_EQ(suspicion.Failure(now), nullptr);
  }
  suspicion.WaitForWorld(Suspicion::kLongest + kSecond);
  EXPECT_NE(suspicion.Failure(Suspicion::kLongest + kSecond), nullptr);
}

}  // namespace
}  // namespace hvdlite::engine
