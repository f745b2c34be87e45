// Ends: shutdown in every order, abort, death, silence, and starting again.
#include <fstream>

#include "comm/world.h"
#include "testing/ranks.h"

namespace hvdlite::testing {
namespace {

constexpr Nanos kSoon = kSecond;  // what the contract promises for the news of a death

Nanos Soon() {
  return static_cast<Nanos>(static_cast<double>(kSoon) * Patience());
}

struct Place {
  int hosts;
  bool mpi = false;
};
void PrintTo(const Place& place, std::ostream* out) {
  *out << place.hosts << " hosts" << (place.mpi ? " over MPI" : "");
}

class EngineEnd : public ::testing::TestWithParam<Place> {
 protected:
  RanksOptions Options(int size = 3) const {
    return {.size = size, .hosts = GetParam().hosts, .mpi = GetParam().mpi, .shutdown = false};
  }
};

TEST_P(EngineEnd, shutdown_ends_operations_that_others_never_asked_for) {
  RunRanks(Options(), [](Rank& me) {
    ASSERT_TRUE(me.Do(Barrier()).ok());
    EXPECT_TRUE(me.engine->failure().ok());
    std::vector<float> x(10, 1);
    if (me.rank == 1) {
      EXPECT_TRUE(me.engine->Shutdown(Deadline::AfterSeconds(10)).ok());
      EXPECT_EQ(me.engine->health().code(), StatusCode::kShutDown);
      HandlePtr handle;
      EXPECT_EQ(me.engine->Submit(0, Allreduce("x", x, &x), true, &handle).code(), StatusCode::kShutDown);
      return;
    }
    const Nanos start = MonotonicNow();
    const Status status = me.Do(Allreduce("x", x, &x));
    EXPECT_EQ(status.code(), StatusCode::kShutDown) << status.ToString();
    EXPECT_NE(status.message().find("rank 1 called hvd.shutdown()"), std::string::npos) << status.message();
    // Others wait for it, but the rank that left has not asked: nothing was promised.
    EXPECT_LT(MonotonicNow() - start, Soon());
    EXPECT_TRUE(me.engine->Shutdown(Deadline::AfterSeconds(10)).ok());
  });
}

TEST_P(EngineEnd, what_was_announced_before_a_shutdown_still_happens) {
  RunRanks(Options(), [](Rank& me) {
    std::vector<float> x(100000, 1), y(100000, 1);
    const HandlePtr a = me.Submit(Allreduce("x", x, &x));
    if (me.rank == 0) usleep(100000);
    const HandlePtr b = me.Submit(Allreduce("y", y, &y));
    EXPECT_TRUE(me.engine->Shutdown(Deadline::AfterSeconds(10)).ok());
    EXPECT_TRUE(a->done() && a->status().ok()) << a->status().ToString();
    EXPECT_TRUE(b->done() && b->status().ok()) << b->status().ToString();
    EXPECT_EQ(y, std::vector<float>(100000, 3.0f));
  });
}

TEST_P(EngineEnd, what_was_announced_in_a_process_set_before_a_shutdown_still_happens) {
  RanksOptions options = Options();
  options.process_sets = {{1, 2}};
  RunRanks(options, [](Rank& me) {
    std::vector<float> x(300000, 1);
    ASSERT_TRUE(me.Do(Barrier()).ok());
    if (me.rank == 1) usleep(static_cast<useconds_t>(50000 * Patience()));
    if (me.rank == 0) usleep(static_cast<useconds_t>(400000 * Patience()));
    const HandlePtr a = me.rank == 0 ? nullptr : me.Submit(Allreduce("x", x, &x), 1);
    EXPECT_TRUE(me.engine->Shutdown(Deadline::AfterSeconds(10)).ok());
    if (a != nullptr) {
      EXPECT_TRUE(a->done() && a->status().ok()) << me.rank << a->status().ToString();
    }
  });
}

TEST_P(EngineEnd, an_operation_that_only_the_leaving_rank_asked_for_ends_after_the_grace) {
  RunRanks(Options(), [](Rank& me) {
    std::vector<float> x(10, 1);
    HandlePtr a;
    if (me.rank == 2) a = me.Submit(Allreduce("x", x, &x));
    if (me.rank != 2) usleep(100000);
    const Nanos start = MonotonicNow();
    if (me.rank == 2) {
      EXPECT_TRUE(me.engine->Shutdown(Deadline::AfterSeconds(20 * Patience())).ok());
      EXPECT_EQ(a->status().code(), StatusCode::kShutDown);
    }
    EXPECT_LT(MonotonicNow() - start, 4 * kSecond + 4 * Soon());
    if (me.rank != 2) {
      EXPECT_TRUE(me.engine->Shutdown(Deadline::AfterSeconds(20 * Patience())).ok());
    }
  });
}

TEST_P(EngineEnd, shutdown_while_other_threads_of_this_rank_wait) {
  RunRanks(Options(), [](Rank& me) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&me, t] {
        std::vector<float> x(10, 1);
        HandlePtr handle;
        // Each rank another name: it never becomes ready.
        const Status submitted = me.engine->Submit(
            0, Allreduce("x" + std::to_string(me.rank) + "." + std::to_string(t), x, &x), true, &handle);
        if (!submitted.ok()) return;
        while (!me.engine->Wait(*handle, kForever)) {
        }
        EXPECT_EQ(handle->status().code(), StatusCode::kShutDown);
      });
    }
    usleep(50000);
    const Nanos start = MonotonicNow();
    EXPECT_TRUE(me.engine->Shutdown(Deadline::AfterSeconds(20)).ok());
    EXPECT_LT(MonotonicNow() - start, 5 * kSecond + 5 * Soon());
    for (std::thread& thread : threads) thread.join();
  });
}

TEST_P(EngineEnd, the_deadline_of_shutdown_holds_even_while_another_thread_waits_for_ever) {
  RunRanks(Options(2), [](Rank& me) {
    if (GetParam().hosts == 3) return;
    std::atomic<bool> over{false};
    ASSERT_TRUE(me.Do(Barrier()).ok());
    if (me.rank == 0) {
      usleep(500000);  // still here, but its consent is not waited for
      return;
    }
    std::thread waiter([&] {
      std::vector<float> x(10, 1);
      HandlePtr handle;
      if (!me.engine->Submit(0, Allreduce("x", x, &x), true, &handle).ok()) return;
      while (!me.engine->Wait(*handle, kForever)) {
      }
      EXPECT_FALSE(handle->status().ok());
    });
    usleep(20000);
    const Nanos start = MonotonicNow();
    EXPECT_TRUE(me.engine->Shutdown(Deadline::After(50 * kMillisecond)).ok());
    EXPECT_LT(MonotonicNow() - start, Soon() / 4);
    waiter.join();
  });
}

TEST_P(EngineEnd, a_shutdown_during_which_the_job_fails_says_why) {
  RunRanks(Options(), [](Rank& me) {
    ASSERT_TRUE(me.Do(Barrier()).ok());
    std::vector<float> x(10, 1);
    HandlePtr awaited;
    if (me.rank == 1) {
      usleep(50000);  // the others are on their way out, but for this
      me.engine->Abort(Status::Internal("rank 1 failed: out of ideas"));
    } else {
      awaited = me.Submit(Allreduce("x", x, &x));
    }
    const Status left = me.engine->Shutdown(Deadline::AfterSeconds(10 * Patience()));
    EXPECT_NE(left.message().find("out of ideas"), std::string::npos) << me.rank << ": " << left.ToString();
    EXPECT_EQ(me.engine->failure().message(), left.message());
  });
}

TEST_P(EngineEnd, abort_ends_every_rank_at_once_and_says_why) {
  RunRanks(Options(), [](Rank& me) {
    ASSERT_TRUE(me.Do(Barrier()).ok());
    std::vector<float> x(10, 1);
    if (me.rank == 1) {
      // A thread of the failing rank waits for ever with the turn; abort must not wait for it.
      const HandlePtr never = me.Submit(Allreduce("x", x, &x));
      std::thread waiter([&] { EXPECT_EQ(me.Wait(never, kForever).code(), StatusCode::kPeerLost); });
      usleep(30000);
      const Nanos start = MonotonicNow();
      me.engine->Abort(Status::PeerLost(1, "rank 1 failed: ValueError: no such file"));
      EXPECT_LT(MonotonicNow() - start, Soon() / 4);
      waiter.join();
      return;
    }
    usleep(me.rank == 2 ? 100000 : 0);  // one waits already, the other asks afterwards
    const Nanos start = MonotonicNow();
    HandlePtr handle;
    Status status = me.engine->Submit(0, Allreduce("y", x, &x), true, &handle);
    if (status.ok()) status = me.Wait(handle, kForever);
    EXPECT_LT(MonotonicNow() - start, 2 * Soon());
    EXPECT_EQ(status.code(), StatusCode::kPeerLost);
    EXPECT_EQ(status.peer(), 1);
    EXPECT_EQ(status.message(), "rank 1 failed: ValueError: no such file");
  });
}

TEST_P(EngineEnd, abort_in_the_middle_of_a_large_transfer) {
  // Of what was being sent over MPI when the job failed: a peer that does not know yet may still fetch it.
  std::vector<std::vector<float>> tensors(3, std::vector<float>(8 << 20, 1));
  RunRanks(Options(), [&tensors](Rank& me) {
    std::vector<float>& x = tensors[static_cast<size_t>(me.rank)];
    ASSERT_TRUE(me.Do(Barrier()).ok());
    HandlePtr handle;
    Status status = me.engine->Submit(0, Allreduce("x", x, &x), false, &handle);
    if (me.rank == 2) {
      usleep(5000);
      me.engine->Abort(Status::PeerLost(2, "enough"));
    }
    if (status.ok()) status = me.Wait(handle, kForever);
    EXPECT_TRUE(status.ok() || status.message() == "enough") << status.ToString();
  });
}

TEST_P(EngineEnd, a_rank_that_dies_is_named_within_a_second) {
  for (const int victim : {0, 1, 2}) {
    RunRanks(Options(), [victim](Rank& me) {
      ASSERT_TRUE(me.Do(Barrier()).ok());
      if (me.rank == victim) {
        me.engine.reset();  // without Shutdown: to the others, a death
        return;
      }
      std::vector<float> x(10, 1);
      const Nanos start = MonotonicNow();
      HandlePtr handle;
      Status status = me.engine->Submit(0, Allreduce("x", x, &x), true, &handle);
      if (status.ok()) status = me.Wait(handle);
      EXPECT_LT(MonotonicNow() - start, 2 * Soon());
      EXPECT_EQ(status.code(), StatusCode::kPeerLost) << status.ToString();
      EXPECT_EQ(status.peer(), victim) << status.ToString();
      // Let all see it before the next one goes and is blamed instead.
      usleep(static_cast<useconds_t>(400000 * Patience()));
    });
  }
}

TEST_P(EngineEnd, a_death_is_noticed_by_ranks_that_do_nothing) {
  RunRanks(Options(), [](Rank& me) {
    ASSERT_TRUE(me.Do(Barrier()).ok());
    if (me.rank == 1) {
      me.engine.reset();
      return;
    }
    const Deadline deadline = Deadline::After(3 * Soon());
    while (me.engine->health().ok() && !deadline.Passed()) usleep(1000);
    EXPECT_EQ(me.engine->health().peer(), 1);
    usleep(static_cast<useconds_t>(400000 * Patience()));
  });
}

TEST_P(EngineEnd, one_engine_after_another_in_the_same_process) {
  rendezvous::MemoryStore store;
  const Watchdog watchdog(120);
  for (int incarnation = 0; incarnation < 8; ++incarnation) {
    const int size = 1 + incarnation % 4;
    RanksOptions options = Options(size);
    if (size < options.hosts) options.hosts = 1;
    std::vector<std::thread> threads;
    for (int r = 0; r < size; ++r) {
      threads.emplace_back([&, r] {
        std::unique_ptr<Engine> engine;
        const Status started = StartEngine(options, r, "job" + std::to_string(incarnation) + "/", &store, &engine);
        ASSERT_TRUE(started.ok()) << started.ToString();
        std::vector<float> x(1000, 1);
        HandlePtr handle;
        ASSERT_TRUE(engine->Submit(0, Allreduce("x", x, &x), true, &handle).ok());
        while (!engine->Wait(*handle, kSecond)) {
        }
        ASSERT_EQ(x, std::vector<float>(1000, static_cast<float>(size)));
        EXPECT_TRUE(engine->Shutdown(Deadline::AfterSeconds(10 * Patience())).ok());
        EXPECT_TRUE(engine->Shutdown(Deadline::AfterSeconds(10 * Patience())).ok());  // harmless
        engine.reset();
        ASSERT_TRUE(handle->status().ok());  // handles outlive the engine
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

INSTANTIATE_TEST_SUITE_P(Hosts, EngineEnd, ::testing::Values(Place{1}, Place{2}, Place{3}));
INSTANTIATE_TEST_SUITE_P(Mpi, EngineEnd, ::testing::Values(Place{1, true}, Place{2, true}, Place{3, true}));

// A rank whose process exists but whose engine does nothing: it has met the others and then stands still.
TEST(EngineSilence, a_frozen_rank_is_named_after_the_heartbeat_limit) {
  rendezvous::MemoryStore store;
  RanksOptions options{.size = 3};
  options.config.heartbeat_seconds = 1.0 * Patience();
  const Watchdog watchdog(60);
  std::vector<std::thread> threads;
  std::atomic<int> over{0};
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      std::unique_ptr<Engine> engine;
      ASSERT_TRUE(StartEngine(options, r, "job/", &store, &engine).ok());
      std::vector<float> x(10, 1);
      const Nanos start = MonotonicNow();
      HandlePtr handle;
      Status status = engine->Submit(0, Allreduce("x", x, &x), true, &handle);
      if (status.ok()) {
        while (!engine->Wait(*handle, kSecond)) {
        }
        status = handle->status();
      }
      EXPECT_GE(MonotonicNow() - start, static_cast<Nanos>(900 * Patience()) * kMillisecond);
      EXPECT_EQ(status.code(), StatusCode::kPeerLost);
      EXPECT_EQ(status.peer(), 2);
      EXPECT_NE(status.message().find("no sign of life"), std::string::npos) << status.message();
      ++over;
    });
  }
  threads.emplace_back([&] {
    const Config config;
    const Logger log(LogLevel::kError, true, 2, 3);
    comm::WorldOptions world;
    world.rank = 2;
    world.size = 3;
    world.store_prefix = "job/";
    world.config = &config;
    world.log = &log;
    std::unique_ptr<comm::World> frozen;
    ASSERT_TRUE(comm::World::Join(world, &store, Deadline::AfterSeconds(20), &frozen).ok());
    while (over < 2) usleep(1000);
  });
  for (std::thread& thread : threads) thread.join();
}

TEST(EngineSilence, a_rank_that_is_busy_in_its_own_code_is_not_accused) {
  RanksOptions options{.size = 3};
  options.config.heartbeat_seconds = std::min(2.0, Patience());
  RunRanks(options, [](Rank& me) {
    if (me.rank == 1) usleep(static_cast<useconds_t>(2500000 * std::min(2.0, Patience())));
    EXPECT_TRUE(me.Do(Barrier()).ok());
  });
}

TEST(EngineStart, a_rank_that_never_comes_is_an_error_that_names_it) {
  rendezvous::MemoryStore store;
  RanksOptions options{.size = 3};
  options.config.start_timeout_seconds = 0.5;
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      std::unique_ptr<Engine> engine;
      const Status status = StartEngine(options, r, "job/", &store, &engine);
      EXPECT_EQ(status.code(), StatusCode::kTimeout);
      EXPECT_NE(status.message().find("2"), std::string::npos) << status.message();
      EXPECT_EQ(engine, nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(EngineStart, nothing_is_left_open_after_many_engines) {
  const auto open_files = [] {
    int count = 0;
    if (DIR* fds = opendir("/proc/self/fd")) {
      while (readdir(fds) != nullptr) ++count;
      closedir(fds);
    }
    return count;
  };
  for (const int hosts : {1, 3}) {
    RunRanks({.size = 3, .hosts = hosts}, [](Rank& me) { ASSERT_TRUE(me.Do(Barrier()).ok()); });
    const int before = open_files();
    for (int i = 0; i < 5; ++i) {
      RunRanks({.size = 3, .hosts = hosts}, [](Rank& me) { ASSERT_TRUE(me.Do(Barrier()).ok()); });
    }
    EXPECT_EQ(open_files(), before);
  }
}

}  // namespace
}  // namespace hvdlite::testing
