#include "comm/world.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/memory_store.h"
#include "testing/watchdog.h"

namespace hvdlite::comm {
namespace {

std::vector<int> AllowedHere() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  std::vector<int> processors;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) processors.push_back(i);
  }
  return processors;
}

// Rank i joins a world on one host from a thread that may only run on `pins[i]`.
void JoinPinned(const std::vector<std::vector<int>>& pins,
                const std::function<void(const World&)>& check) {
  rendezvous::MemoryStore store;
  std::vector<std::thread> ranks;
  for (size_t rank = 0; rank < pins.size(); ++rank) {
    ranks.emplace_back([&, rank] {
      cpu_set_t allowed;
      CPU_ZERO(&allowed);
      for (int processor : pins[rank]) CPU_SET(processor, &allowed);
      ASSERT_EQ(sched_setaffinity(0, sizeof(allowed), &allowed), 0);
      const Config config;
      const Logger log(LogLevel::kError, true, static_cast<int>(rank),
                       static_cast<int>(pins.size()));
      WorldOptions options;
      options.rank = static_cast<int>(rank);
      options.size = static_cast<int>(pins.size());
      options.config = &config;
      options.log = &log;
      std::unique_ptr<World> world;
      const Status joined =
          World::Join(options, &store, Deadline::AfterSeconds(20 * testing::Patience()), &world);
      ASSERT_TRUE(joined.ok()) << joined.message();
      check(*world);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST(World, RanksPinnedToCoresOfTheirOwnDoNotCrowdTheHost) {
  const std::vector<int> here = AllowedHere();
  if (here.size() < 2) GTEST_SKIP() << "needs two processors";
  JoinPinned({{here[0]}, {here[1]}}, [](const World& world) {
    EXPECT_FALSE(world.oversubscribed());
    EXPECT_FALSE(world.has_spare_processor());
  });
}

TEST(World, RanksPinnedToOneCoreCrowdTheHost) {
  const int only = AllowedHere()[0];
  JoinPinned({{only}, {only}}, [](const World& world) { EXPECT_TRUE(world.oversubscribed()); });
}

TEST(World, ARankHasASpareProcessorIfItMayUseMoreThanTheHostHasRanks) {
  const std::vector<int> here = AllowedHere();
  if (here.size() < 2) GTEST_SKIP() << "needs two processors";
  JoinPinned({{here[0]}}, [](const World& world) { EXPECT_FALSE(world.has_spare_processor()); });
  JoinPinned({{here[0], here[1]}},
             [](const World& world) { EXPECT_TRUE(world.has_spare_processor()); });
}

}  // namespace
}  // namespace hvdlite::comm
