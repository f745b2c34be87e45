// What the timeline's file holds, and when.
#include "engine/observe/timeline.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "testing/watchdog.h"

namespace hvdlite::engine {
namespace {

class TimelineFile : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(timeline_.Start(path_, false, 0).ok()); }
  void TearDown() override {
    timeline_.Stop();
    unlink(path_.c_str());
  }

  std::string Text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // The events in order, as "kind rank/lane name"; without those that give names to ranks and
  // lanes.
  std::vector<std::string> Events() {
    timeline_.Stop();
    const auto after = [](const std::string& line, const std::string& key) {
      const size_t at = line.find("\"" + key + "\": ");
      if (at == std::string::npos) return std::string();
      const size_t begin = line.find_first_not_of("\" ", at + key.size() + 3);
      return line.substr(begin, line.find_first_of("\",}", begin) - begin);
    };
    std::vector<std::string> events;
    std::istringstream text(Text());
    for (std::string line; std::getline(text, line);) {
      const std::string kind = after(line, "ph");
      if (kind.empty() || kind == "M") continue;
      const std::string name = after(line, "name");
      events.push_back(kind + " " + after(line, "pid") + "/" + after(line, "tid") +
                       (name.empty() ? "" : " " + name));
    }
    return events;
  }

  const hvdlite::testing::Watchdog watchdog_{60};
  const std::string path_ = ::testing::TempDir() + "hvdlite-trace." + std::to_string(getpid());
  const Logger log_{LogLevel::kWarning, false, 0, 1};
  Timeline timeline_{1 << 20, &log_};
};

using Lines = std::vector<std::string>;

TEST_F(TimelineFile, shows_when_each_rank_asked_and_how_long_it_waited) {
  timeline_.Arrive("a", "NEGOTIATE", 2, 1);
  timeline_.Arrive("a", "NEGOTIATE", 0, 2);
  timeline_.Arrive("a", "NEGOTIATE", 1, 3);
  timeline_.Agree("a", 4);
  timeline_.Begin("a", "ALLREDUCE", 4);
  timeline_.End("a", 5);
  timeline_.Close("a", 5);
  EXPECT_EQ(Events(), (Lines{"B 0/1 a", "B 0/1 NEGOTIATE", "X 0/1 2", "X 0/1 0", "X 0/1 1", "E 0/1",
                             "X 2/1 a", "X 1/1 a", "B 0/1 ALLREDUCE", "E 0/1", "E 0/1"}));
}

TEST_F(TimelineFile, a_rank_that_asks_again_before_the_round_is_over_here_begins_the_next_one) {
  timeline_.Arrive("a", "NEGOTIATE", 0, 1);
  timeline_.Arrive("a", "NEGOTIATE", 1, 1);
  timeline_.Agree("a", 2);
  timeline_.Begin("a", "ALLREDUCE", 2);
  timeline_.Arrive("a", "NEGOTIATE", 1, 3);
  timeline_.End("a", 4);
  timeline_.Close("a", 4);
  timeline_.Arrive("a", "NEGOTIATE", 0, 5);
  timeline_.Agree("a", 5);
  timeline_.Close("a", 6);
  EXPECT_EQ(Events(), (Lines{"B 0/1 a", "B 0/1 NEGOTIATE", "X 0/1 0", "X 0/1 1", "E 0/1", "X 1/1 a",
                             "B 0/1 ALLREDUCE", "E 0/1", "E 0/1", "B 0/1 a", "B 0/1 NEGOTIATE",
                             "X 0/1 1", "X 0/1 0", "E 0/1", "X 1/1 a", "E 0/1"}));
}

TEST_F(TimelineFile, operations_in_flight_have_lanes_of_their_own_and_leave_them_to_others) {
  timeline_.Begin("a", "A", 1);
  timeline_.Begin("b", "B", 1);
  timeline_.Close("a", 2);
  timeline_.Begin("c", "C", 3);
  timeline_.Close("b", 4);
  timeline_.Close("c", 4);
  EXPECT_EQ(Events(), (Lines{"B 0/1 a", "B 0/1 A", "B 0/2 b", "B 0/2 B", "E 0/1", "E 0/1",
                             "B 0/1 c", "B 0/1 C", "E 0/2", "E 0/2", "E 0/1", "E 0/1"}));
}

TEST_F(TimelineFile, a_failure_ends_all_phases_that_are_open) {
  timeline_.Begin("a", "ALLREDUCE", 1);
  timeline_.Begin("a", "SHM_ALLREDUCE", 1);
  timeline_.Fail("a", 2);
  EXPECT_EQ(Events(), (Lines{"B 0/1 a", "B 0/1 ALLREDUCE", "B 0/1 SHM_ALLREDUCE", "E 0/1", "E 0/1",
                             "B 0/1 ERROR", "E 0/1", "E 0/1"}));
}

TEST_F(TimelineFile, what_was_under_way_before_it_started_leaves_no_end_without_a_beginning) {
  timeline_.Agree("a", 1);
  timeline_.End("a", 2);
  timeline_.Close("a", 3);
  timeline_.Fail("a", 3);
  timeline_.Begin("b", "B", 4);
  timeline_.End("b", 5);
  timeline_.End("b", 5);
  timeline_.Close("b", 6);
  EXPECT_EQ(Events(), (Lines{"B 0/1 b", "B 0/1 B", "E 0/1", "E 0/1"}));
}

TEST_F(TimelineFile, has_an_event_within_a_tenth_of_a_second) {
  std::vector<Nanos> took;
  for (int i = 0; i < 15; ++i) {
    const std::string name = "tensor." + std::to_string(i) + ".";
    const Nanos start = MonotonicNow();
    timeline_.Begin(name, "ALLREDUCE", start);
    while (Text().find(name) == std::string::npos) usleep(1000);
    took.push_back(MonotonicNow() - start);
  }
  std::sort(took.begin(), took.end());
  EXPECT_LT(took[7], 100 * kMillisecond);
}

TEST_F(TimelineFile, ends_when_it_is_as_large_as_it_may_be_and_can_be_started_again) {
  const std::string name(1000, 'x');
  for (int i = 0; timeline_.on(); ++i) timeline_.Begin(name, "ALLREDUCE", i);
  const std::string text = Text();
  EXPECT_LE(text.size(), 1u << 20);
  EXPECT_EQ(text.back(), ']');
  ASSERT_TRUE(timeline_.Start(path_, false, 0).ok());
  timeline_.Begin("a", "ALLREDUCE", 1);
  EXPECT_EQ(Events(), (Lines{"B 0/1 a", "B 0/1 ALLREDUCE"}));
}

}  // namespace
}  // namespace hvdlite::engine
