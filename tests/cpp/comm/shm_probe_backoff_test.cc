#include <gtest/gtest.h>

#include "comm/shm/probe_backoff.h"

namespace hvdlite::comm::shm {
namespace {

// How many batches of that shape pass before the members ask again.
int SkippedUntilNextQuestion(ProbeBackoff* backoff, uint64_t shape) {
  int skipped = 0;
  while (!backoff->Asks(shape)) ++skipped;
  return skipped;
}

TEST(ShmInterest, ordinary_tensors_are_asked_about_less_and_less_often) {
  ProbeBackoff backoff;
  for (const int expected : {0, 1, 3, 7, 15, 31, 63, 63, 63}) {
    EXPECT_EQ(SkippedUntilNextQuestion(&backoff, 5), expected);
    backoff.Learn(5, false);
  }
}

TEST(ShmInterest, gradients_are_asked_about_each_time_once_they_are_found) {
  ProbeBackoff backoff;
  for (int i = 0; i < 4; ++i) {
    SkippedUntilNextQuestion(&backoff, 5);
    backoff.Learn(5, false);
  }
  SkippedUntilNextQuestion(&backoff, 5);
  backoff.Learn(5, true);
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(backoff.Asks(5));
    backoff.Learn(5, true);
  }
}

TEST(ShmInterest, shapes_do_not_learn_from_one_another) {
  ProbeBackoff backoff;
  EXPECT_TRUE(backoff.Asks(5));
  backoff.Learn(5, false);
  EXPECT_TRUE(backoff.Asks(6));
  EXPECT_FALSE(backoff.Asks(5));
}

TEST(ShmInterest, more_shapes_than_it_remembers_are_asked_about_again) {
  ProbeBackoff backoff;
  for (uint64_t round = 0; round < 3; ++round) {
    for (uint64_t shape = 1; shape <= 100'000; ++shape) {
      if (backoff.Asks(shape)) backoff.Learn(shape, false);
    }
  }
  EXPECT_LE(SkippedUntilNextQuestion(&backoff, 1), 63);
}

}  // namespace
}  // namespace hvdlite::comm::shm
