#include "engine/tune/meter.h"

#include <gtest/gtest.h>

#include <string>

namespace hvdlite::engine {
namespace {

constexpr Nanos kMs = kMillisecond;

Meter::Options OfSteps(int steps) {
  return {.steps = steps, .at_least = 0, .at_most = 10 * kSecond};
}

TEST(Meter, a_sample_holds_whole_steps) {
  Meter meter(OfSteps(2));
  meter.Begin(0);
  // Steps of two operations: 10 ms in flight, then 90 ms of the program's own work.
  Nanos now = 0;
  int added = 0;
  for (bool complete = false; !complete; now += 100 * kMs) {
    for (const char* name : {"a", "b"}) {
      complete = meter.Add(name, now, now + (name[0] == 'a' ? 5 : 10) * kMs, 500);
      if (complete) break;
      ++added;
    }
  }
  EXPECT_EQ(added, 4);
  EXPECT_EQ(meter.score(), 4 * 500 / 0.020);
}

TEST(Meter, time_in_flight_counts_once) {
  Meter meter(OfSteps(1));
  meter.Begin(0);
  EXPECT_FALSE(meter.Add("a", 0, 10 * kMs, 100));
  EXPECT_FALSE(meter.Add("b", 5 * kMs, 10 * kMs, 100));
  EXPECT_TRUE(meter.Add("a", 20 * kMs, 30 * kMs, 100));
  EXPECT_EQ(meter.score(), 200 / 0.010);
}

TEST(Meter, what_was_submitted_before_the_sample_belongs_to_none) {
  Meter meter(OfSteps(1));
  meter.Begin(10 * kMs);
  EXPECT_FALSE(meter.Add("a", 9 * kMs, 20 * kMs, 100));
  EXPECT_EQ(meter.score(), 0);
  EXPECT_FALSE(meter.Add("a", 10 * kMs, 20 * kMs, 100));
  EXPECT_TRUE(meter.Add("a", 20 * kMs, 30 * kMs, 100));
}

TEST(Meter, short_steps_make_longer_samples) {
  Meter meter({.steps = 1, .at_least = 50 * kMs, .at_most = kSecond});
  meter.Begin(0);
  int steps = 0;
  while (!meter.Add("a", steps * kMs, (steps + 1) * kMs, 10)) ++steps;
  EXPECT_EQ(steps, 50);
  EXPECT_EQ(meter.score(), 10 / 0.001);
}

TEST(Meter, names_that_never_return_are_cut_by_time) {
  Meter meter({.steps = 10, .at_least = 50 * kMs, .at_most = kSecond});
  meter.Begin(0);
  int count = 0;
  while (!meter.Add("noname." + std::to_string(count), count * kMs, (count + 1) * kMs, 10)) ++count;
  EXPECT_EQ(count, 1000);
}

TEST(Meter, begins_anew) {
  Meter meter(OfSteps(1));
  meter.Begin(0);
  EXPECT_FALSE(meter.Add("a", 0, 10 * kMs, 100));
  meter.Begin(10 * kMs);
  EXPECT_EQ(meter.score(), 0);
  EXPECT_FALSE(meter.Add("a", 10 * kMs, 20 * kMs, 300));
  EXPECT_TRUE(meter.Add("a", 20 * kMs, 30 * kMs, 300));
  EXPECT_EQ(meter.score(), 300 / 0.010);
}

}  // namespace
}  // namespace hvdlite::engine
