// Ends: shutdown in every order, abort, death, silence, and starting again.
#include <barrier>
#include <fstream>

#include "comm/world.h"
#include "testing/in_threads.h"
#include "testing/ranks.h"
#include "testing/says.h"
#include "testing/tier.h"

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
    EXPECT_TRUE(me.engine->life().failure().ok());
    std::vector<float> x(10, 1);
    if (me.rank == 1) {
      EXPECT_TRUE(me.engine->Shutdown(Deadline::AfterSeconds(20 * Patience())).ok());
      EXPECT_EQ(me.engine->life().end().code(), StatusCode::kShutDown);
      HandlePtr handle;
      EXPECT_EQ(me.engine->Submit(0, Allreduce("x", x, &x), true, &handle).code(),
                StatusCode::kShutDown);
      return;
    }
    // Nothing was promised, so it ends at once: agreement_test.cc, where time stands still.
    const Status status = me.Do(Allreduce("x", x, &x));
    EXPECT_TRUE(FailsWith(status, StatusCode::kShutDown, "rank 1 called hvd.shutdown()"));
    EXPECT_TRUE(me.engine->Shutdown(Deadline::AfterSeconds(20 * Patience())).ok());
  });
}

TEST_P(EngineEnd, what_was_announced_before_a_shutdown_still_happens) {
  Departure departure;
  RunRanks(Options(), [&departure](Rank& me) {
    std::vector<float> x(100000, 1), y(100000, 1);
    std::vector<HandlePtr> handles = {me.Submit(Allreduce("x", x, &x))};
    if (me.rank == 0) usleep(100000);
    HandlePtr late;
    if (me.engine->Submit(0, Allreduce("y", y, &y), false, &late).ok()) {
      handles.push_back(late);
    } else {
      EXPECT_TRUE(departure.GraceIsOver());
    }
    departure.Begin();
    EXPECT_TRUE(me.engine->Shutdown(Deadline::AfterSeconds(20 * Patience())).ok());
    for (const HandlePtr& handle : handles) {
      EXPECT_TRUE(handle->done());
      EXPECT_TRUE(handle->status().ok() || departure.GraceIsOver()) << handle->status().ToString();
    }
    if (late != nullptr && late->status().ok()) {
      EXPECT_EQ(y, std::vector<float>(100000, 3.0f));
    }
  });
}

TEST_P(EngineEnd, what_was_announced_in_a_process_set_before_a_shutdown_still_happens) {
  RanksOptions options = Options();
  options.process_sets = {{1, 2}};
  Departure departure;
  RunRanks(options, [&departure](Rank& me) {
    std::vector<float> x(300000, 1);
    ASSERT_TRUE(me.Do(Barrier()).ok());
    if (me.rank == 1) usleep(100000);
    if (me.rank == 0) usleep(400000);
    HandlePtr a;
    if (me.rank != 0 && !me.engine->Submit(1, Allreduce("x", x, &x), false, &a).ok()) {
      EXPECT_TRUE(departure.GraceIsOver());
    }
    departure.Begin();
    EXPECT_TRUE(me.engine->Shutdown(Deadline::AfterSeconds(20 * Patience())).ok());
    if (a != nullptr) {
      EXPECT_TRUE(a->done());
      EXPECT_TRUE(a->status().ok() || departure.GraceIsOver()) << me.rank << a->status().ToString();
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
            0, Allreduce("x" + std::to_string(me.rank) + "." + std::to_string(t), x, &x), true,
            &handle);
        if (!submitted.ok()) return;
        while (!me.engine->Wait(*handle, kForever)) {
        }
        EXPECT_EQ(handle->status().code(), StatusCode::kShutDown);
      });
    }
    usleep(50000);
    const Nanos start = MonotonicNow();
    EXPECT_TRUE(me.engine->Shutdown(Deadline::AfterSeconds(30 * Patience())).ok());
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
    std::atomic<bool> asked{false};
    std::thread waiter([&] {
      std::vector<float> x(10, 1);
      HandlePtr handle;
      EXPECT_TRUE(me.engine->Submit(0, Allreduce("x", x, &x), true, &handle).ok());
      asked = true;
      while (!me.engine->Wait(*handle, kForever)) {
      }
      EXPECT_FALSE(handle->status().ok());
    });
    while (!asked) usleep(100);
    usleep(20000);
    Departure departure;
    departure.Begin();
    EXPECT_TRUE(me.engine->Shutdown(Deadline::After(50 * kMillisecond)).ok());
    // Not by consent, which comes after the grace: the waiter's operation has been promised.
    const std::string why = me.engine->life().end().message();
    EXPECT_TRUE(why.find("called on this rank") != std::string::npos || departure.GraceIsOver())
        << why;
    waiter.join();
  });
}

TEST_P(EngineEnd, a_shutdown_during_which_the_job_fails_says_why) {
  std::barrier together(3);
  Departure departure;
  RunRanks(Options(), [&](Rank& me) {
    ASSERT_TRUE(me.Do(Barrier()).ok());
    std::vector<float> x(10, 1);
    const HandlePtr awaited = me.rank == 1 ? nullptr : me.Submit(Allreduce("x", x, &x));
    together.arrive_and_wait();
    departure.Begin();
    if (me.rank == 1) {
      usleep(50000);  // the others are on their way out, but for this
      me.engine->Abort(Status::Internal("rank 1 failed: out of ideas"));
    }
    const Status left = me.engine->Shutdown(Deadline::AfterSeconds(20 * Patience()));
    EXPECT_TRUE(left.message().find("out of ideas") != std::string::npos || departure.GraceIsOver())
        << me.rank << ": " << left.ToString();
    EXPECT_EQ(me.engine->life().failure().message(), left.message());
  });
}

TEST_P(EngineEnd, abort_ends_every_rank_at_once_and_says_why) {
  std::barrier together(3);
  std::atomic<Nanos> aborted{0};
  RunRanks(Options(), [&](Rank& me) {
    ASSERT_TRUE(me.Do(Barrier()).ok());
    together.arrive_and_wait();  // whoever is still in the barrier would see it fail
    std::vector<float> x(10, 1);
    if (me.rank == 1) {
      // A thread of the failing rank waits for ever with the turn; an abort that waited for it
      // would hang.
      const HandlePtr never = me.Submit(Allreduce("x", x, &x));
      std::thread waiter(
          [&] { EXPECT_EQ(me.Wait(never, kForever).code(), StatusCode::kPeerLost); });
      usleep(30000);
      me.engine->Abort(Status::PeerLost(1, "rank 1 failed: ValueError: no such file"));
      aborted = MonotonicNow();
      waiter.join();
      return;
    }
    usleep(me.rank == 2 ? 100000 : 0);  // one waits already, the other asks afterwards
    HandlePtr handle;
    Status status = me.engine->Submit(0, Allreduce("y", x, &x), true, &handle);
    if (status.ok()) status = me.Wait(handle, kForever);
    const Nanos since = aborted;
    EXPECT_TRUE(since == 0 || MonotonicNow() - since < 2 * Soon());
    EXPECT_TRUE(IsLossOf(1, status));
    EXPECT_EQ(status.message(), "rank 1 failed: ValueError: no such file");
  });
}

// Works until the request has been announced. Nothing works on it from then on, before this rank
// waits for it or has been silent for Turn::kTickEvery.
HandlePtr Announce(Engine* engine, Submission submission) {
  submission.patient = true;
  HandlePtr handle;
  EXPECT_TRUE(engine->Submit(0, std::move(submission), true, &handle).ok());
  EXPECT_FALSE(engine->Wait(*handle, kMillisecond));
  return handle;
}

TEST_P(EngineEnd, an_error_of_all_ranks_comes_before_the_abort_of_one_that_has_had_it) {
  RanksOptions options = Options();
  options.config.overlap = "off";
  std::atomic<int> announced{0};
  std::atomic<bool> aborted{false};
  RunRanks(options, [&](Rank& me) {
    ASSERT_TRUE(me.Do(Barrier()).ok());
    std::vector<float> x(static_cast<size_t>(3 + me.rank), 1);
    if (me.rank == 0) {
      while (announced < 2) usleep(100);
      EXPECT_TRUE(FailsWith(me.Do(Allreduce("x", x, &x)), StatusCode::kMismatch, "x"));
      me.engine->Abort(Status::PeerLost(0, "rank 0 failed: MismatchError"));
      aborted = true;
      return;
    }
    const HandlePtr handle = Announce(me.engine.get(), Allreduce("x", x, &x));
    ++announced;
    while (!aborted) usleep(100);
    EXPECT_TRUE(FailsWith(me.Wait(handle), StatusCode::kMismatch, "x"));
    EXPECT_TRUE(IsLossOf(0, me.Do(Barrier())));
  });
}

TEST_P(EngineEnd, abort_in_the_middle_of_a_large_transfer) {
  // Of what was being sent over MPI when the job failed: a peer that does not know yet may still
  // fetch it.
  std::vector<std::vector<float>> tensors(3, std::vector<float>(8 << 20, 1));
  std::barrier together(3);
  RunRanks(Options(), [&](Rank& me) {
    std::vector<float>& x = tensors[static_cast<size_t>(me.rank)];
    ASSERT_TRUE(me.Do(Barrier()).ok());
    together.arrive_and_wait();  // whoever is still in the barrier would see it fail
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
    std::barrier together(3);
    std::atomic<Nanos> died{0};
    RunRanks(Options(), [&](Rank& me) {
      ASSERT_TRUE(me.Do(Barrier()).ok());
      together.arrive_and_wait();  // whoever is still in the barrier would see it fail
      if (me.rank == victim) {
        me.engine.reset();  // without Shutdown: to the others, a death
        died = MonotonicNow();
        return;
      }
      std::vector<float> x(10, 1);
      HandlePtr handle;
      Status status = me.engine->Submit(0, Allreduce("x", x, &x), true, &handle);
      if (status.ok()) status = me.Wait(handle);
      const Nanos since = died;
      EXPECT_TRUE(since == 0 || MonotonicNow() - since < 2 * Soon());
      EXPECT_TRUE(IsLossOf(victim, status));
    });
  }
}

TEST(EngineDeath, is_known_to_a_neighbour_that_waits_long_before_its_next_tick) {
  Nanos soonest = kForever;
  for (int trial = 0; trial < 5 && soonest > engine::Turn::kTickEvery / 2; ++trial) {
    std::atomic<Nanos> died{0};
    RunRanks({.size = 2, .shutdown = false}, [&](Rank& me) {
      ASSERT_TRUE(me.Do(Barrier()).ok());
      if (me.rank == 1) {
        // The next tick of rank 0 is a whole one away when its heart has just beaten.
        const std::atomic<uint64_t>& beats = me.engine->world().segment().line(0).heartbeat;
        for (const uint64_t before = beats; beats == before;) usleep(100);
        died = MonotonicNow();
        me.engine.reset();  // without Shutdown
        return;
      }
      EXPECT_TRUE(IsLossOf(1, me.Do(Barrier())));
      soonest = std::min(soonest, MonotonicNow() - died);
    });
  }
  EXPECT_LE(soonest, engine::Turn::kTickEvery / 2);
}

TEST_P(EngineEnd, a_death_is_noticed_by_ranks_that_do_nothing) {
  std::barrier together(3);
  std::atomic<bool> died{false};
  RunRanks(Options(), [&](Rank& me) {
    ASSERT_TRUE(me.Do(Barrier()).ok());
    together.arrive_and_wait();  // whoever is still in the barrier would see it fail
    if (me.rank == 1) {
      me.engine.reset();
      died = true;
      return;
    }
    while (!died) usleep(1000);
    const Deadline deadline = Deadline::After(3 * Soon());
    while (me.engine->life().end().ok() && !deadline.Passed()) usleep(1000);
    EXPECT_EQ(me.engine->life().end().peer(), 1);
  });
}

TEST_P(EngineEnd, one_engine_after_another_in_the_same_process) {
  rendezvous::MemoryStore store;
  const Watchdog watchdog(120);
  for (int incarnation = 0; incarnation < 8; ++incarnation) {
    const int size = 1 + incarnation % 4;
    RanksOptions options = Options(size);
    if (size < options.hosts) options.hosts = 1;
    InThreads(size, [&](int r) {
      std::unique_ptr<Engine> engine;
      const Status started =
          StartEngine(options, r, "job" + std::to_string(incarnation) + "/", &store, &engine);
      ASSERT_TRUE(started.ok()) << started.ToString();
      std::vector<float> x(1000, 1);
      HandlePtr handle;
      ASSERT_TRUE(engine->Submit(0, Allreduce("x", x, &x), true, &handle).ok());
      while (!engine->Wait(*handle, kSecond)) {
      }
      ASSERT_EQ(x, std::vector<float>(1000, static_cast<float>(size)));
      EXPECT_TRUE(engine->Shutdown(Deadline::AfterSeconds(20 * Patience())).ok());
      EXPECT_TRUE(engine->Shutdown(Deadline::AfterSeconds(20 * Patience())).ok());  // harmless
      engine.reset();
      ASSERT_TRUE(handle->status().ok());  // handles outlive the engine
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Hosts, EngineEnd, ::testing::ValuesIn(InTier<Place>({{1}, {3}}, {{2}})));
INSTANTIATE_TEST_SUITE_P(Mpi, EngineEnd,
                         ::testing::ValuesIn(InTier<Place>({{2, true}}, {{1, true}, {3, true}})));

// A root that does nothing by itself. The others are ranks 1 and 2, with engines.
class RootByHand {
 public:
  explicit RootByHand(rendezvous::Store* store) {
    comm::WorldOptions options;
    options.size = 3;
    options.store_prefix = "job/";
    options.config = &config_;
    options.log = &log_;
    EXPECT_TRUE(
        comm::World::Join(options, store, Deadline::AfterSeconds(20 * Patience()), &world_).ok());
    EXPECT_TRUE(world_
                    ->Connect({0, 1, 2}, engine::Sets().NewNumber(),
                              Deadline::AfterSeconds(20 * Patience()), &group_)
                    .ok());
    EXPECT_TRUE(store->Arrive(Deadline::AfterSeconds(20 * Patience())).ok());
    engine::TreePlace place;
    for (size_t i = 0; i < group_->children.size(); ++i)
      place.children.push_back({group_->children[i], group_->tree.children[i].speaks_for});
    agreement_ = std::make_unique<engine::Agreement>(place, std::vector<int>{0, 1, 2},
                                                     engine::AgreementOptions{});
  }

  // Asks as well, and decides what the others have announced.
  void Decide(const Request& request) {
    EXPECT_TRUE(agreement_->Announce(request, engine::kNoSlot, MonotonicNow()).ok());
    std::vector<engine::Decision> decisions;
    bool moved = false;
    EXPECT_TRUE(agreement_->Exchange(MonotonicNow(), &decisions, &moved).ok());
    ASSERT_FALSE(decisions.empty());
    world_->bells().RingEveryone();
  }

 private:
  const Config config_;
  const Logger log_{LogLevel::kError, true, 0, 3};
  std::unique_ptr<comm::World> world_;
  std::unique_ptr<comm::Group> group_;
  std::unique_ptr<engine::Agreement> agreement_;
};

// The root is between two sends: rank 1 has had the decision and has failed by it, rank 2 has not.
void Overtakes(bool decides) {
  rendezvous::MemoryStore store;
  RanksOptions options{.size = 3};
  options.config.overlap = "off";
  const Watchdog watchdog(60);
  std::unique_ptr<Engine> engines[2];
  HandlePtr handles[2];
  std::vector<float> x(10, 1);
  std::atomic<int> announced{0};
  std::atomic<Nanos> aborted{0};
  InThreads(3, [&](int r) {
    if (r == 0) {
      RootByHand root(&store);
      while (announced < 2) usleep(100);
      aborted = MonotonicNow();
      engines[0]->Abort(Status::PeerLost(1, "rank 1 failed: MismatchError"));
      usleep(50000);  // rank 2 obeys, if it does so at once
      const std::vector<float> longer(11, 1);
      if (decides) root.Decide(Allreduce("x", longer, &x).request);
      while (announced < 3) usleep(100);
      return;
    }
    std::unique_ptr<Engine>& engine = engines[r - 1];
    ASSERT_TRUE(StartEngine(options, r, "job/", &store, &engine).ok());
    handles[r - 1] = Announce(engine.get(), Allreduce("x", x, &x));
    ++announced;
    if (r == 1) return;
    while (!engine->Wait(*handles[1], kSecond)) {
    }
    const Nanos waited = MonotonicNow() - aborted;
    if (decides && waited < engine::Suspicion::kInWorld) {
      EXPECT_TRUE(FailsWith(handles[1]->status(), StatusCode::kMismatch, "x"));
    } else {
      EXPECT_GE(waited, engine::Suspicion::kInWorld);
    }
    const Deadline deadline = Deadline::AfterSeconds(20 * Patience());
    while (engine->life().end().ok() && !deadline.Passed()) usleep(1000);
    EXPECT_TRUE(IsLossOf(1, engine->life().end()));
    ++announced;
  });
}

TEST(EngineAbort, does_not_overtake_a_decision_that_the_root_is_sending) {
  Overtakes(/*decides=*/true);
}

TEST(EngineAbort, waits_for_a_root_that_stands_still_for_a_moment_only) {
  Overtakes(/*decides=*/false);
}

// A rank whose process exists but whose engine does nothing: it has met the others and then stands
// still.
TEST(EngineSilence, a_frozen_rank_is_named_after_the_heartbeat_limit) {
  rendezvous::MemoryStore store;
  RanksOptions options{.size = 3};
  // Longer than a healthy rank may be held up: two that are silent from the start would be accused
  // in the order of their numbers.
  options.config.heartbeat_seconds = 3;
  const auto limit =
      static_cast<Nanos>(options.config.heartbeat_seconds * static_cast<double>(kSecond));
  const Watchdog watchdog(60);
  std::vector<std::thread> threads;
  std::atomic<int> over{0};
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      std::unique_ptr<Engine> engine;
      // Of the silence, too: the engine listens from its start on.
      const Nanos start = MonotonicNow();
      ASSERT_TRUE(StartEngine(options, r, "job/", &store, &engine).ok());
      std::vector<float> x(10, 1);
      HandlePtr handle;
      Status status = engine->Submit(0, Allreduce("x", x, &x), true, &handle);
      if (status.ok()) {
        while (!engine->Wait(*handle, kSecond)) {
        }
        status = handle->status();
      }
      EXPECT_GE(MonotonicNow() - start, limit);
      EXPECT_TRUE(IsLossOf(2, status, "no sign of life"));
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
    ASSERT_TRUE(
        comm::World::Join(world, &store, Deadline::AfterSeconds(20 * Patience()), &frozen).ok());
    while (over < 2) usleep(1000);
  });
  for (std::thread& thread : threads) thread.join();
}

TEST(EngineSilence, a_rank_that_is_busy_in_its_own_code_is_not_accused) {
  RanksOptions options{.size = 3};
  constexpr double kLimit = 3;  // longer than its engine may be held up
  options.config.heartbeat_seconds = kLimit;
  RunRanks(options, [](Rank& me) {
    if (me.rank == 1) usleep(static_cast<useconds_t>(1.25e6 * kLimit));
    EXPECT_TRUE(me.Do(Barrier()).ok());
  });
}

TEST(EngineStart, a_rank_that_never_comes_is_an_error_that_names_it) {
  rendezvous::MemoryStore store;
  RanksOptions options{.size = 3};
  options.config.start_timeout_seconds = 0.5;
  InThreads(2, [&](int r) {
    std::unique_ptr<Engine> engine;
    const Status status = StartEngine(options, r, "job/", &store, &engine);
    EXPECT_TRUE(FailsWith(status, StatusCode::kTimeout, "2"));
    EXPECT_EQ(engine, nullptr);
  });
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
