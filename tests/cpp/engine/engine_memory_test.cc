// Memory that is not there: the job ends with a sentence, on all ranks, and no lock stays behind.
#include <cstdlib>
#include <new>

#include "testing/ranks.h"

// Sanitizers bring their own operator new.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HVDLITE_TEST_CAN_FAIL_NEW 0
#else
#define HVDLITE_TEST_CAN_FAIL_NEW 1
#endif

namespace {
// Allocations of at least so many bytes fail.
std::atomic<size_t> g_too_large{SIZE_MAX};
}  // namespace

#if HVDLITE_TEST_CAN_FAIL_NEW
// Not inlined: the compiler would see malloc and delete, or new and free, meet.
__attribute__((noinline)) void* operator new(size_t bytes) {
  void* const memory =
      bytes >= g_too_large.load(std::memory_order_relaxed) ? nullptr : malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
__attribute__((noinline)) void operator delete(void* memory) noexcept {
  free(memory);
}
__attribute__((noinline)) void operator delete(void* memory, size_t) noexcept {
  free(memory);
}
#endif

namespace hvdlite::testing {
namespace {

TEST(EngineMemory, a_rank_without_memory_ends_the_job_with_a_sentence) {
  if (!HVDLITE_TEST_CAN_FAIL_NEW) GTEST_SKIP() << "the sanitizer owns operator new";
  std::atomic<int> ready{0};
  RunRanks({.size = 3, .shutdown = false}, [&](Rank& me) {
    std::vector<float> x(4 << 20, 1);
    ASSERT_TRUE(me.Do(Barrier()).ok());
    ++ready;
    while (ready < 3) usleep(100);
    g_too_large = 8 << 20;
    // Rank 2 has joined: it needs zeros to offer, which it cannot have.
    const Status status = me.rank == 2 ? me.Do(Join()) : me.Do(Allreduce("x", x, &x));
    EXPECT_EQ(status.code(), StatusCode::kIo) << status.ToString();
    EXPECT_EQ(status.message(), "rank 2 has no memory left for what it and its peers agreed to do");
    ++ready;
    while (ready < 6) usleep(100);
    g_too_large = SIZE_MAX;
    me.engine->Abort(Status::Internal("the turn is free"));
    EXPECT_EQ(me.engine->Shutdown(Deadline::AfterSeconds(1)).code(), StatusCode::kIo);
  });
}

}  // namespace
}  // namespace hvdlite::testing
