// Which lane carries the next block: pretended lanes deliver at fixed speeds, behind a sender that
// has a buffer of fixed size for each.
#include "transport/lanes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace hvdlite::transport::lanes_testing {
namespace {

struct Pretended {
  explicit Pretended(double speed, uint64_t room = 1 << 20) : bytes_per_nano(speed), buffer(room) {}

  double bytes_per_nano;
  uint64_t buffer;
  double delivered = 0;
  uint64_t given = 0;

  double queued() const { return static_cast<double>(given) - delivered; }
};

class World {
 public:
  explicit World(std::vector<Pretended> lanes) : lanes_(std::move(lanes)), speeds_(lanes_.size()) {}

  // Gives away a message, then waits until all of it is delivered. Returns the time that it took.
  double Send(size_t bytes) {
    const double begin = now_;
    for (size_t left = bytes; left > 0;) {
      Look();
      const size_t block = std::min(left, BlockBytes(speeds_));
      last_ = ChooseLane(speeds_, block);
      speeds_[last_].Sent(block, static_cast<Nanos>(now_));
      Pretended& lane = lanes_[last_];
      const double room = static_cast<double>(lane.buffer) - lane.queued();
      const double missing = static_cast<double>(block) - room;
      if (missing > 0) Pass(missing / lane.bytes_per_nano);
      lane.given += block;
      left -= block;
    }
    double longest = 0;
    for (const Pretended& lane : lanes_)
      longest = std::max(longest, lane.queued() / lane.bytes_per_nano);
    // A thread that waits for its peers looks often.
    for (double left = longest; left > 0; left -= 100000) {
      Pass(std::min(left, 100000.0));
      Look();
    }
    return now_ - begin;
  }
  void Pass(double nanos) {
    now_ += nanos;
    for (Pretended& lane : lanes_)
      lane.delivered =
          std::min(static_cast<double>(lane.given), lane.delivered + nanos * lane.bytes_per_nano);
  }
  Pretended& lane(size_t i) { return lanes_[i]; }

 private:
  void Look() {
    Pass(1000);  // a call takes a while
    for (size_t i = 0; i < lanes_.size(); ++i) {
      const auto delivered = static_cast<uint64_t>(std::llround(lanes_[i].delivered));
      speeds_[i].Look(delivered, lanes_[i].given - delivered, static_cast<Nanos>(now_));
    }
  }

  std::vector<Pretended> lanes_;
  std::vector<Lane> speeds_;
  size_t last_ = 0;
  double now_ = 1e9;
};

constexpr double kGigabit = 0.125;  // bytes per nanosecond

TEST(Lanes, of_one_speed_take_turns) {
  for (size_t n = 2; n <= 4; ++n) {
    World world(std::vector<Pretended>(n, Pretended(kGigabit)));
    const double took = world.Send(64 << 20);
    EXPECT_LT(took, 1.02 * (64 << 20) / kGigabit / static_cast<double>(n)) << n;
    EXPECT_LT(world.Send(1 << 20), 1.2 * (1 << 20) / kGigabit / static_cast<double>(n)) << n;
  }
}

TEST(Lanes, a_slow_lane_never_makes_a_message_slower_than_the_fast_one_alone) {
  for (const double slower : {2.0, 3.0, 10.0, 100.0}) {
    for (const uint64_t buffer : {128 << 10, 400 << 10, 4 << 20}) {
      for (const bool fast_first : {true, false}) {
        const Pretended fast(kGigabit, buffer), slow(kGigabit / slower, buffer);
        World world(fast_first ? std::vector{fast, slow} : std::vector{slow, fast});
        world.Send(4 << 20);  // learns their speeds
        for (const size_t bytes : {64 << 10, 256 << 10, 1 << 20, 16 << 20}) {
          const double alone = static_cast<double>(bytes) / kGigabit;
          double mean = 0;
          for (int i = 0; i < 20; ++i) mean += world.Send(bytes) / 20;
          EXPECT_LT(mean, 1.05 * alone + 100000)  // a slow lane is tried now and then
              << slower << " times, " << buffer << " in the buffer, " << bytes;
        }
      }
    }
  }
}

TEST(Lanes, add_up_even_if_their_speeds_differ) {
  for (const double slower : {2.0, 3.0}) {
    World world({Pretended(kGigabit, 4 << 20), Pretended(kGigabit / slower, 4 << 20)});
    world.Send(4 << 20);
    const double alone = (64 << 20) / kGigabit;
    EXPECT_LT(world.Send(64 << 20), 1.03 * alone / (1 + 1 / slower)) << slower;
  }
}

TEST(Lanes, a_lane_that_was_slow_for_a_while_is_tried_again) {
  World world({Pretended(kGigabit, 400 << 10), Pretended(kGigabit / 20, 400 << 10)});
  for (int i = 0; i < 10; ++i) world.Send(4 << 20);
  world.lane(1).bytes_per_nano = kGigabit;
  double took = 0;
  for (int i = 0; i < 10; ++i) {
    world.Pass(2e9);
    took = world.Send(4 << 20);
  }
  EXPECT_LT(took, 1.1 * (4 << 20) / kGigabit / 2);
}

TEST(Lanes, a_lane_that_becomes_slow_loses_its_blocks) {
  World world({Pretended(kGigabit), Pretended(kGigabit)});
  world.Send(16 << 20);
  world.lane(1).bytes_per_nano = kGigabit / 50;
  world.Send(16 << 20);
  EXPECT_LT(world.Send(16 << 20), 1.02 * (16 << 20) / kGigabit + 100000);
}

TEST(Lanes, the_first_lane_gets_what_finds_it_idle_and_the_next_gets_the_rest) {
  std::vector<Lane> lanes(3);
  EXPECT_EQ(ChooseLane(lanes, 1), 0u);
  lanes[0].Sent(1 << 20, 0);
  EXPECT_EQ(ChooseLane(lanes, 1), 1u);
  lanes[1].Sent(1 << 19, 0);
  EXPECT_EQ(ChooseLane(lanes, 1), 2u);
  lanes[2].Sent(1 << 20, 0);
  EXPECT_EQ(ChooseLane(lanes, 1), 1u);
}

// A lane that delivers `bytes` in `span`, again and again.
struct Delivering {
  Lane lane;
  uint64_t delivered = 0;
  Nanos now = 0;

  void Deliver(uint64_t bytes, Nanos span) {
    lane.Sent(bytes, now);
    delivered += bytes;
    lane.Look(delivered, 0, now += span);
    now += 1000;
  }
};

TEST(Lanes, few_bytes_say_nothing_about_speed) {
  Delivering one;
  for (int i = 0; i < 1000; ++i) one.Deliver(10000, 100000);
  EXPECT_EQ(one.lane.nanos_per_byte(), 0);
}

TEST(Lanes, a_last_acknowledgement_that_is_late_makes_no_lane_slow) {
  Lane lane;
  for (uint64_t i = 0; i < 10; ++i) {
    const Nanos now = static_cast<Nanos>(i) * 40000000;
    lane.Sent(100000, now);
    lane.Look(i * 100000, 90000, now + 100000);
    lane.Look(i * 100000 + 99000, 1000, now + 110000);
    lane.Look(i * 100000 + 100000, 0, now + 39000000);
  }
  EXPECT_LT(lane.nanos_per_byte(), 1.2);
}

TEST(Lanes, several_short_stretches_make_a_long_one) {
  Delivering one;
  for (int i = 0; i < 3; ++i) one.Deliver(100000, 200000);
  EXPECT_DOUBLE_EQ(one.lane.nanos_per_byte(), 2);
}

TEST(Lanes, are_as_fast_as_in_the_best_of_their_last_stretches) {
  Delivering one;
  one.Deliver(300000, 600000);
  for (size_t i = 1; i < Lane::kRemember; ++i) one.Deliver(300000, 30000000);
  EXPECT_DOUBLE_EQ(one.lane.nanos_per_byte(), 2);
  one.Deliver(300000, 30000000);
  EXPECT_DOUBLE_EQ(one.lane.nanos_per_byte(), 100);
  one.Deliver(300000, 300000);
  EXPECT_DOUBLE_EQ(one.lane.nanos_per_byte(), 1);
}

TEST(Lanes, small_messages_do_not_use_a_lane_that_is_much_slower) {
  World world({Pretended(kGigabit), Pretended(kGigabit / 10)});
  for (int i = 0; i < 40; ++i) world.Send(32 << 10);
  double mean = 0;
  for (int i = 0; i < 100; ++i) mean += world.Send(32 << 10) / 100;
  EXPECT_LT(mean, 1.02 * (32 << 10) / kGigabit + 100000);
}

}  // namespace
}  // namespace hvdlite::transport::lanes_testing
