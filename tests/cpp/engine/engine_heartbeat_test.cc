// Who counts as silent among engines whose limits differ.
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "testing/in_threads.h"
#include "testing/ranks.h"

namespace hvdlite::testing {
namespace {

// It does not ask for the others' signs of life; they ask for its.
TEST(EngineHeartbeat, a_rank_without_a_limit_of_its_own_is_not_accused_by_the_others) {
  rendezvous::MemoryStore store;
  constexpr double kLimit = 3;  // longer than an engine may be held up
  const Watchdog watchdog(60);
  InThreads(3, [&](int r) {
    RanksOptions options{.size = 3, .hosts = 3};
    options.config.heartbeat_seconds = r == 1 ? 0 : kLimit;
    std::unique_ptr<Engine> engine;
    ASSERT_TRUE(StartEngine(options, r, "job/", &store, &engine).ok());
    if (r == 1) usleep(static_cast<useconds_t>(1.25e6 * kLimit));
    HandlePtr handle;
    ASSERT_TRUE(engine->Submit(0, Barrier(), true, &handle).ok());
    while (!engine->Wait(*handle, kSecond)) {
    }
    EXPECT_TRUE(handle->status().ok()) << handle->status().ToString();
    EXPECT_TRUE(engine->Shutdown(Deadline::AfterSeconds(20 * Patience())).ok());
  });
}

}  // namespace
}  // namespace hvdlite::testing
