// When the timeline's events are in its file.
#include "engine/observe/timeline.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "testing/watchdog.h"

namespace hvdlite::engine {
namespace {

TEST(TimelineFile, an_event_is_in_it_within_a_tenth_of_a_second) {
  const hvdlite::testing::Watchdog watchdog(60);
  const std::string path = ::testing::TempDir() + "hvdlite-trace." + std::to_string(getpid());
  const auto holds = [&path](const std::string& what) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {}).find(what) != std::string::npos;
  };
  Timeline timeline;
  ASSERT_TRUE(timeline.Start(path, false, 0).ok());
  std::vector<Nanos> took;
  for (int i = 0; i < 15; ++i) {
    const std::string tensor = "tensor." + std::to_string(i);
    const Nanos start = MonotonicNow();
    timeline.Begin(tensor, "ALLREDUCE", start);
    while (!holds(tensor + "\"}}")) usleep(1000);
    took.push_back(MonotonicNow() - start);
  }
  timeline.Stop();
  unlink(path.c_str());
  std::sort(took.begin(), took.end());
  EXPECT_LT(took[7], 100 * kMillisecond);
}

}  // namespace
}  // namespace hvdlite::engine
