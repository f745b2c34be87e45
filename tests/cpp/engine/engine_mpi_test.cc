// Whole engines over an MPI: who uses it, who is told why not, and what remains of it.
#include <string>

#include "testing/in_threads.h"
#include "testing/ranks.h"
#include "testing/says.h"

namespace hvdlite::testing {
namespace {

TEST(EngineMpi, says_that_tensors_go_over_mpi_and_why) {
  RunRanks({.size = 2, .mpi = true}, [](Rank& me) {
    EXPECT_TRUE(me.engine->world().mpi().use);
    EXPECT_EQ(me.engine->Explain(0), "mpi (the fake MPI): HVDLITE_CPU_OPERATIONS=mpi");
  });
  RunRanks({.size = 4, .hosts = 2, .mpi = true}, [](Rank& me) {
    EXPECT_EQ(me.engine->Explain(0),
              "hierarchical: 2 members on each of 2 hosts, mpi (the fake MPI) between them");
  });
  RunRanks({.size = 3, .hosts = 2, .mpi = true}, [](Rank& me) {
    EXPECT_EQ(me.engine->Explain(0),
              "hierarchical: up to 2 members on each of 2 hosts, mpi (the fake MPI) between them");
  });
  RunRanks({.size = 2}, [](Rank& me) {
    EXPECT_FALSE(me.engine->world().mpi().use);
    EXPECT_EQ(me.engine->Explain(0), "shm: all members are on one host");
    EXPECT_EQ(me.engine->Explain(7), "");
  });
}

// A job of two ranks, of which one may differ.
std::vector<Status> Start(const std::function<void(int, engine::EngineOptions*)>& differ,
                          FakeMpi* mpi, bool same_host) {
  rendezvous::MemoryStore store;
  std::vector<Status> statuses(2);
  const Watchdog watchdog(60, [] { return std::string("starting"); });
  InThreads(2, [&](int rank) {
    engine::EngineOptions options;
    options.rank = rank;
    options.size = 2;
    options.config.host_id = same_host ? "a" : "host" + std::to_string(rank);
    options.config.start_timeout_seconds = 20 * Patience();
    options.mpi.library = mpi->library();
    options.mpi.communicator = mpi->world(rank);
    options.mpi.name = "the fake MPI";
    differ(rank, &options);
    std::unique_ptr<Engine> engine;
    statuses[static_cast<size_t>(rank)] = Engine::Start(options, &store, &engine);
    if (engine == nullptr) return;
    std::vector<float> x(1000, 1);
    HandlePtr handle;
    EXPECT_TRUE(engine->Submit(0, Allreduce("x", x, &x), true, &handle).ok());
    while (!engine->Wait(*handle, kSecond)) {
    }
    EXPECT_TRUE(handle->status().ok());
    EXPECT_EQ(x[999], 2);
    EXPECT_TRUE(engine->Shutdown(Deadline::AfterSeconds(20 * Patience())).ok());
  });
  return statuses;
}

TEST(EngineMpi, a_rank_without_it_is_named_to_all_where_it_is_demanded) {
  FakeMpi mpi(2);
  const auto statuses = Start(
      [](int rank, engine::EngineOptions* options) {
        options->config.cpu_operations = "mpi";
        if (rank == 1) options->mpi = {nullptr, 0, "", "mpi4py is not installed"};
      },
      &mpi, /*same_host=*/true);
  for (const Status& status : statuses) {
    EXPECT_TRUE(FailsWith(status, StatusCode::kInvalidArgument,
                          "rank 1 has no MPI: mpi4py is not installed"));
  }
}

TEST(EngineMpi, where_it_is_not_demanded_the_job_goes_on_without) {
  FakeMpi mpi(2);
  const auto statuses = Start(
      [](int rank, engine::EngineOptions* options) {
        if (rank == 1) options->mpi = {nullptr, 0, "", "mpi4py is not installed"};
      },
      &mpi, /*same_host=*/false);
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(mpi.open_communicators(), 0);
}

TEST(EngineMpi, two_different_ones_are_an_error_on_all) {
  FakeMpi mpi(2);
  const auto statuses = Start(
      [](int rank, engine::EngineOptions* options) {
        if (rank == 1) options->mpi.name = "another MPI";
      },
      &mpi, /*same_host=*/false);
  for (const Status& status : statuses) {
    EXPECT_TRUE(Says(status, "rank 0 has the fake MPI and rank 1 has another MPI"));
  }
}

TEST(EngineMpi, a_communicator_that_numbers_the_ranks_otherwise_is_refused) {
  FakeMpi mpi(2);
  const auto statuses = Start(
      [&](int rank, engine::EngineOptions* options) {
        options->config.cpu_operations = "mpi";
        options->mpi.communicator = mpi.world(1 - rank);
      },
      &mpi, /*same_host=*/true);
  for (const Status& status : statuses)
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
}

TEST(EngineMpi, process_sets_get_communicators_of_their_own_and_give_them_back) {
  FakeMpi mpi(3);
  rendezvous::MemoryStore store;
  const Watchdog watchdog(60, [] { return std::string("sets"); });
  RanksOptions options{.size = 3};
  InThreads(3, [&](int rank) {
    Rank me(rank, 3);
    ASSERT_TRUE(StartEngine(options, rank, "job/", &store, &me.engine, &mpi).ok());
    for (int i = 0; i < 5; ++i) {
      HandlePtr added;
      ASSERT_TRUE(me.Do(AddSet("add", {0, 2}), 0, &added).ok());
      const int set = static_cast<int>(added->number);
      std::vector<float> x(10000, 1);
      if (rank != 1) {
        ASSERT_TRUE(me.Do(Allreduce("x", x, &x), set).ok());
        EXPECT_EQ(x[9999], 2);
      }
      ASSERT_TRUE(me.Do(RemoveSet("remove", set)).ok());
    }
    ASSERT_TRUE(me.Do(Barrier("all")).ok());
    EXPECT_EQ(mpi.open_communicators(), 3);
    ASSERT_TRUE(me.Do(Barrier("seen")).ok());
    EXPECT_TRUE(me.engine->Shutdown(Deadline::AfterSeconds(20 * Patience())).ok());
    me.engine.reset();
  });
  EXPECT_EQ(mpi.open_communicators(), 0);
}

// Long waits are slept through, mostly: what is waited for over MPI rings no bell.
TEST(EngineMpi, a_late_rank_is_waited_for_without_burning_the_processor) {
  RunRanks({.size = 2, .mpi = true}, [](Rank& me) {
    std::vector<float> x(100000, 1);
    ASSERT_TRUE(me.Do(Allreduce("x", x, &x)).ok());
    timespec before, after;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    if (me.rank == 1) usleep(500000);
    ASSERT_TRUE(me.Do(Allreduce("x", x, &x)).ok());
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    const double seconds = static_cast<double>(after.tv_sec - before.tv_sec) +
                           1e-9 * static_cast<double>(after.tv_nsec - before.tv_nsec);
    EXPECT_LT(seconds, 0.05 * Patience());
  });
}

}  // namespace
}  // namespace hvdlite::testing
