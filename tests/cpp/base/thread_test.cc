#include "base/thread.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/jitter.h"
#include "testing/says.h"

namespace hvdlite {
namespace {

TEST(CoreOf, takes_the_entry_of_the_local_rank) {
  int core = 7;
  EXPECT_TRUE(CoreOf("", 0, 3, &core).ok());
  EXPECT_EQ(core, -1);
  for (const auto& [rank, expected] : {std::pair{0, 4}, {1, 0}, {2, 11}}) {
    EXPECT_TRUE(CoreOf("4, 0 ,11", rank, 3, &core).ok());
    EXPECT_EQ(core, expected);
  }
}

TEST(CoreOf, says_what_is_wrong_with_a_list) {
  int core = 7;
  for (const char* list :
       {"4,x,1", "4,,1", "4,1,", ",4,1", "-1,2,3", "1.5,2,3", " ", "99999999999,1,2"}) {
    const Status status = CoreOf(list, 0, 3, &core);
    EXPECT_TRUE(Says(status, "is not the number of a core")) << list << ": " << status.ToString();
    // fuzz_text found: a list that is wrong after our entry pinned us without a warning.
    EXPECT_EQ(core, -1) << list;
  }
  for (const char* list : {"1", "1,2", "1,2,3,4"}) {
    const Status status = CoreOf(list, 0, 3, &core);
    EXPECT_TRUE(Says(status, "but this host has 3 ranks")) << list << ": " << status.ToString();
    EXPECT_EQ(core, -1);
  }
}

TEST(PinThread, leaves_one_core_or_an_error) {
  std::thread([] {
    cpu_set_t cores;
    ASSERT_EQ(pthread_getaffinity_np(pthread_self(), sizeof(cores), &cores), 0);
    int last = 0;
    for (int core = 0; core < CPU_SETSIZE; ++core) last = CPU_ISSET(core, &cores) ? core : last;
    ASSERT_TRUE(PinThread(pthread_self(), last).ok());
    ASSERT_EQ(pthread_getaffinity_np(pthread_self(), sizeof(cores), &cores), 0);
    EXPECT_EQ(CPU_COUNT(&cores), 1);
    EXPECT_TRUE(CPU_ISSET(last, &cores));
    for (const int none : {CPU_SETSIZE - 1, CPU_SETSIZE, 1 << 30})
      EXPECT_FALSE(PinThread(pthread_self(), none).ok()) << none;
  }).join();
}

TEST(Jitter, draws_spans_up_to_the_limit_and_often_none) {
  int none = 0;
  int late = 0;
  for (uint64_t n = 0; n < 1000; ++n) {
    const Nanos span = Jitter::Span(n, 100);
    ASSERT_GE(span, 0);
    ASSERT_LE(span, 100);
    none += span == 0 ? 1 : 0;
    late += span > 50 ? 1 : 0;
  }
  EXPECT_GT(none, 400);
  EXPECT_LT(none, 600);
  EXPECT_GT(late, 150);
  const Nanos before = MonotonicNow();
  const Jitter jitter(kMillisecond, 3);
  for (int i = 0; i < 20; ++i) jitter();
  EXPECT_GT(MonotonicNow() - before, kMillisecond);
}

}  // namespace
}  // namespace hvdlite
