#include "comm/processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace hvdlite::comm {
namespace {

using namespace std::string_view_literals;

TEST(Processors, OfAHostAreTheUnionOfItsRanksMasks) {
  struct Case {
    std::vector<std::string_view> masks;
    int quota;
    int processors;
  };
  for (const Case& each : std::vector<Case>{
           {{"\3"sv, "\3"sv}, 0, 2},              // no rank is pinned
           {{"\1"sv, "\2"sv}, 0, 2},              // each rank has a core
           {{"\1"sv, "\1"sv}, 0, 1},              // all ranks have the same core
           {{"\1"sv, "\0\0\x80"sv}, 0, 2},        // masks of different lengths
           {{"\xff\xff"sv, "\x0f"sv}, 0, 16},     // one mask contains the other
           {{"\xff\xff"sv, "\xff\xff"sv}, 3, 3},  // a container's limit
           {{"\3"sv, "\3"sv}, 8, 2},              // a limit above what there is
           {{""sv, "\6"sv}, 0, 2},                // a rank that does not know its mask
           {{""sv, ""sv}, 0, 1},
       }) {
    EXPECT_EQ(CountProcessors(each.masks, each.quota), each.processors);
  }
}

TEST(Processors, OfAThreadAreThoseOfItsAffinity) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  EXPECT_EQ(CountProcessors({AllowedProcessors()}, 0), CPU_COUNT(&before));
  int last = -1;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &before)) last = i;
  }
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    const std::string mask = AllowedProcessors();
    ASSERT_EQ(static_cast<int>(mask.size()), last / 8 + 1);
    EXPECT_EQ(static_cast<uint8_t>(mask.back()), 1U << last % 8);
    EXPECT_EQ(CountProcessors({mask}, 0), 1);
  }).join();
}

}  // namespace
}  // namespace hvdlite::comm
