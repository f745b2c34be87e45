// What every Store promises, asked of MemoryStore. TcpStore against the real server is in the
// conformance run.
#include "rendezvous/store.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "rendezvous/memory_store.h"
#include "testing/in_threads.h"
#include "testing/says.h"
#include "testing/soon.h"

namespace hvdlite::rendezvous {
namespace {

Deadline Now() {
  return Deadline::After(0);
}

TEST(MemoryStore, GivesBackTheBytesThatWereSet) {
  MemoryStore store;
  const std::string bytes("a\0b\xff", 4);
  ASSERT_TRUE(store.Set("key", bytes).ok());
  std::string value;
  ASSERT_TRUE(store.Get("key", Now(), &value).ok());
  EXPECT_EQ(value, bytes);
  ASSERT_TRUE(store.Set("key", "").ok());
  ASSERT_TRUE(store.Get("key", Now(), &value).ok());
  EXPECT_EQ(value, "");
}

TEST(MemoryStore, GetWaitsForAnotherThread) {
  MemoryStore store;
  std::string value;
  Status status;
  std::thread waiter([&] { status = store.Get("late", Soon(), &value); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_TRUE(store.Set("late", "here").ok());
  waiter.join();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(value, "here");
}

TEST(MemoryStore, GetTimesOutAndNamesTheKey) {
  MemoryStore store;
  std::string value;
  const Status status = store.Get("never", Deadline::After(20 * kMillisecond), &value);
  EXPECT_TRUE(FailsWith(status, StatusCode::kTimeout, "'never'"));
}

TEST(MemoryStore, CollectBringsAllValuesInOrderToAllThreads) {
  MemoryStore store;
  constexpr int kRanks = 5;
  std::vector<std::vector<std::string>> got(kRanks);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      EXPECT_TRUE(store.Set("m/" + std::to_string(rank), "r" + std::to_string(rank)).ok());
      EXPECT_TRUE(store.Collect("m", kRanks, Soon(), &got[static_cast<size_t>(rank)]).ok());
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (const auto& values : got)
    EXPECT_EQ(values, (std::vector<std::string>{"r0", "r1", "r2", "r3", "r4"}));
}

TEST(MemoryStore, ATimedOutCollectNamesWhoIsMissing) {
  MemoryStore store;
  ASSERT_TRUE(store.Set("m/1", "x").ok());
  std::vector<std::string> values;
  Status status = store.Collect("m", 4, Now(), &values);
  EXPECT_TRUE(FailsWith(status, StatusCode::kTimeout, "in time: 0, 2, 3"));
  EXPECT_TRUE(values.empty());
  status = store.Collect("m", 1000, Now(), &values);
  EXPECT_TRUE(Says(status, "63, 64 and 935 more"));
  EXPECT_TRUE(store.Collect("m", 0, Now(), &values).ok());
  EXPECT_EQ(store.Collect("m", -1, Now(), &values).code(), StatusCode::kInvalidArgument);
}

TEST(MemoryStore, AddCountsFromZeroForAllThreadsTogether) {
  MemoryStore store;
  InThreads(4, [&](int) {
    int64_t sum = 0;
    for (int k = 0; k < 250; ++k) EXPECT_TRUE(store.Add("n", 1, &sum).ok());
  });
  int64_t sum = 0;
  ASSERT_TRUE(store.Add("n", -1000, &sum).ok());
  EXPECT_EQ(sum, 0);
  ASSERT_TRUE(store.Add("n", -2, &sum).ok());
  std::string value;
  ASSERT_TRUE(store.Get("n", Now(), &value).ok());
  EXPECT_EQ(value, std::string("\xfe") + std::string(7, '\xff'));
}

TEST(MemoryStore, AddRefusesWhatIsNoCounterAndWhatOverflows) {
  MemoryStore store;
  int64_t sum = 0;
  ASSERT_TRUE(store.Set("text", "abc").ok());
  EXPECT_EQ(store.Add("text", 1, &sum).code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(store.Add("n", std::numeric_limits<int64_t>::max(), &sum).ok());
  EXPECT_EQ(store.Add("n", 1, &sum).code(), StatusCode::kInvalidArgument);
}

TEST(MemoryStore, DeleteRemovesTheKeyAndAllBelowItOnly) {
  MemoryStore store;
  for (const char* key : {"a", "a/1", "a/b/c", "ab", "a.", "a0"})
    ASSERT_TRUE(store.Set(key, "x").ok());
  ASSERT_TRUE(store.Delete("a").ok());
  ASSERT_TRUE(store.Delete("a").ok());
  std::string value;
  for (const char* key : {"a", "a/1", "a/b/c"})
    EXPECT_FALSE(store.Get(key, Now(), &value).ok()) << key;
  for (const char* key : {"ab", "a.", "a0"}) EXPECT_TRUE(store.Get(key, Now(), &value).ok()) << key;
}

TEST(MemoryStore, RefusesKeysThatNoStoreTakes) {
  MemoryStore store;
  EXPECT_EQ(store.Set("", "x").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(store.Set(std::string(4097, 'k'), "x").code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(store.Set(std::string(4096, 'k'), "x").ok());
}

}  // namespace
}  // namespace hvdlite::rendezvous
