#include <gtest/gtest.h>

#include "comm/shm/interest.h"

namespace hvdlite::comm::shm {
namespace {

// How many batches of that shape pass before the members ask again.
int SkippedUntilNextQuestion(Interest* interest, uint64_t shape) {
  int skipped = 0;
  while (!interest->Asks(shape)) ++skipped;
  return skipped;
}

TEST(ShmInterest, ordinary_tensors_are_asked_about_less_and_less_often) {
  Interest interest;
  for (const int expected : {0, 1, 3, 7, 15, 31, 63, 63, 63}) {
    EXPECT_EQ(SkippedUntilNextQuestion(&interest, 5), expected);
    interest.Learn(5, false);
  }
}

TEST(ShmInterest, gradients_are_asked_about_each_time_once_they_are_found) {
  Interest interest;
  for (int i = 0; i < 4; ++i) {
    SkippedUntilNextQuestion(&interest, 5);
    interest.Learn(5, false);
  }
  SkippedUntilNextQuestion(&interest, 5);
  interest.Learn(5, true);
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(interest.Asks(5));
    interest.Learn(5, true);
  }
}

TEST(ShmInterest, shapes_do_not_learn_from_one_another) {
  Interest interest;
  EXPECT_TRUE(interest.Asks(5));
  interest.Learn(5, false);
  EXPECT_TRUE(interest.Asks(6));
  EXPECT_FALSE(interest.Asks(5));
}

TEST(ShmInterest, more_shapes_than_it_remembers_are_asked_about_again) {
  Interest interest;
  for (uint64_t round = 0; round < 3; ++round) {
    for (uint64_t shape = 1; shape <= 100'000; ++shape) {
      if (interest.Asks(shape)) interest.Learn(shape, false);
    }
  }
  EXPECT_LE(SkippedUntilNextQuestion(&interest, 1), 63);
}

}  // namespace
}  // namespace hvdlite::comm::shm
