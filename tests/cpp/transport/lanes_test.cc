// Which lane carries the next block: pretended lanes deliver at fixed speeds, behind a sender that
// has a buffer of fixed size for each.
#include "transport/lanes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace hvdlite::transport {
namespace {

struct Pretended {
  double bytes_per_nano;
  uint64_t buffer = 1 << 20;
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
      last_ = ChooseLane(speeds_, block, last_);
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
    World world(std::vector<Pretended>(n, {kGigabit}));
    const double took = world.Send(64 << 20);
    EXPECT_LT(took, 1.02 * (64 << 20) / kGigabit / static_cast<double>(n)) << n;
    EXPECT_LT(world.Send(1 << 20), 1.2 * (1 << 20) / kGigabit / static_cast<double>(n)) << n;
  }
}

TEST(Lanes, a_slow_lane_never_makes_a_message_slower_than_the_fast_one_alone) {
  for (const double slower : {2.0, 3.0, 10.0, 100.0}) {
    for (const uint64_t buffer : {128 << 10, 400 << 10, 4 << 20}) {
      for (const bool fast_first : {true, false}) {
        Pretended fast{kGigabit, buffer}, slow{kGigabit / slower, buffer};
        World world(fast_first ? std::vector{fast, slow} : std::vector{slow, fast});
        world.Send(4 << 20);  // learns their speeds
        for (const size_t bytes : {64 << 10, 256 << 10, 1 << 20, 16 << 20}) {
          const double alone = static_cast<double>(bytes) / kGigabit;
          double mean = 0;
          for (int i = 0; i < 20; ++i) mean += world.Send(bytes) / 20;
          EXPECT_LT(mean, 1.02 * alone + 100000)
              << slower << " times, " << buffer << " in the buffer, " << bytes;
        }
      }
    }
  }
}

TEST(Lanes, add_up_even_if_their_speeds_differ) {
  for (const double slower : {2.0, 3.0}) {
    World world({{kGigabit, 4 << 20}, {kGigabit / slower, 4 << 20}});
    world.Send(4 << 20);
    const double alone = (64 << 20) / kGigabit;
    EXPECT_LT(world.Send(64 << 20), 1.03 * alone / (1 + 1 / slower)) << slower;
  }
}

TEST(Lanes, a_lane_that_was_slow_for_a_while_is_tried_again) {
  World world({{kGigabit, 400 << 10}, {kGigabit / 20, 400 << 10}});
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
  World world({{kGigabit}, {kGigabit}});
  world.Send(16 << 20);
  world.lane(1).bytes_per_nano = kGigabit / 50;
  world.Send(16 << 20);
  EXPECT_LT(world.Send(16 << 20), 1.02 * (16 << 20) / kGigabit + 100000);
}

TEST(Lanes, without_any_knowledge_they_take_turns) {
  const std::vector<Lane> lanes(3);
  EXPECT_EQ(ChooseLane(lanes, 1, 0), 1u);
  EXPECT_EQ(ChooseLane(lanes, 1, 1), 2u);
  EXPECT_EQ(ChooseLane(lanes, 1, 2), 0u);
}

TEST(Lanes, few_bytes_say_nothing_about_speed) {
  Lane lane;
  lane.Sent(100, 0);
  lane.Look(100, 0, kSecond / 2);
  EXPECT_EQ(lane.nanos_per_byte(), 0);
  lane.Sent(100000, kSecond);
  lane.Look(100100, 0, kSecond + 200000);
  EXPECT_DOUBLE_EQ(lane.nanos_per_byte(), 2);
}

TEST(Lanes, a_lane_that_was_empty_for_an_unknown_time_is_at_least_as_fast_as_it_seems) {
  Lane lane;
  const auto deliver = [&](Nanos begin, Nanos looked, Nanos end, uint64_t from) {
    lane.Sent(100000, begin);
    lane.Look(from + 10, 99990, looked);
    lane.Look(from + 100000, 0, end);
  };
  deliver(0, 10, 200000, 0);
  EXPECT_DOUBLE_EQ(lane.nanos_per_byte(), 2);
  deliver(300000, 300010, 900000, 100000);
  EXPECT_DOUBLE_EQ(lane.nanos_per_byte(), 2);
  deliver(1000000, 1390000, 1400000, 200000);  // seen to be busy nearly to the end
  EXPECT_DOUBLE_EQ(lane.nanos_per_byte(), 3);
}

}  // namespace
}  // namespace hvdlite::transport
