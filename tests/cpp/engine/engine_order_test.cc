// Orders, threads and delays: whatever the interleaving, nothing deadlocks and every result is
// right.
#include <random>

#include "engine/job.h"
#include "testing/in_threads.h"
#include "testing/ranks.h"

namespace hvdlite::testing {
namespace {

class EngineOrder : public ::testing::TestWithParam<Job> {
 protected:
  RanksOptions Options() const {
    return {.size = GetParam().ranks,
            .hosts = GetParam().hosts,
            .mpi = GetParam().mpi,
            .limit_seconds = 120};
  }
};

TEST_P(EngineOrder, sets_that_overlap_in_a_circle_never_deadlock) {
  RanksOptions options = Options();
  const int n = options.size;
  for (int r = 0; r < n; ++r) options.process_sets.push_back({r, (r + 1) % n});
  RunRanks(options, [n](Rank& me) {
    // Each rank asks in its left set first and then in its right one: a circle of waiting, if
    // anybody blocked.
    const int right = me.rank + 1;
    const int left = (me.rank + n - 1) % n + 1;
    for (int round = 0; round < 60; ++round) {
      const int first = round % 2 == 0 ? left : right;
      const int second = round % 2 == 0 ? right : left;
      std::vector<int64_t> a(30000, 1), b(30000, 2);
      const HandlePtr one = me.Submit(Allreduce("x", a, &a), first);
      const HandlePtr two = me.Submit(Allreduce("x", b, &b), second);
      // In adverse order, too: the later one first.
      ASSERT_TRUE(me.Wait(two).ok());
      ASSERT_TRUE(me.Wait(one).ok());
    }
    ASSERT_TRUE(me.Do(Barrier("end")).ok());
  });
}

TEST_P(EngineOrder, sets_in_a_circle_with_one_thread_per_set) {
  RanksOptions options = Options();
  const int n = options.size;
  for (int r = 0; r < n; ++r) options.process_sets.push_back({r, (r + 1) % n});
  RunRanks(options, [n](Rank& me) {
    std::vector<std::thread> threads;
    for (const int set : {me.rank + 1, (me.rank + n - 1) % n + 1, 0}) {
      threads.emplace_back([&me, set] {
        for (int round = 0; round < 50; ++round) {
          std::vector<int64_t> x(static_cast<size_t>(1 + round * 400), 1);
          ASSERT_TRUE(me.Do(Allreduce("x", x, &x), set).ok());
          ASSERT_EQ(x.back(), static_cast<int64_t>(me.engine->sets().Members(set)->size()));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    // Whoever leaves ends the job for all, also for sets it is not in.
    ASSERT_TRUE(me.Do(Barrier("end")).ok());
  });
}

// One asynchronous operation of any kind whose result is known.
struct Pending {
  int number = 0;
  OpKind kind = OpKind::kAllreduce;
  std::vector<int64_t> in, out;
  HandlePtr handle;

  void Submit(Rank* me, int set_size, int position, int set) {
    kind = static_cast<OpKind>(number % 6);
    const std::string name = "op" + std::to_string(number);
    const size_t count = static_cast<size_t>(number * 37 % 3000);
    in.assign(count, position + number);
    out.assign(count, -1);
    const size_t n = static_cast<size_t>(set_size);
    switch (kind) {
      case OpKind::kAllreduce: handle = me->Submit(Allreduce(name, in, &out), set); break;
      case OpKind::kAllgather:
        in.resize(static_cast<size_t>(position), position);
        handle = me->Submit(Allgather(name, in), set);
        break;
      case OpKind::kBroadcast:
        handle = me->Submit(Broadcast(name, &in, number % set_size), set);
        break;
      case OpKind::kAlltoall:
        in.assign(n * 2, position);
        handle = me->Submit(Alltoall(name, in, std::vector<int64_t>(n, 2)), set);
        break;
      case OpKind::kReducescatter:
        in.assign(n + 1, 1);
        handle = me->Submit(Reducescatter(name, in), set);
        break;
      default: handle = me->Submit(Barrier(name), set);
    }
  }

  void Check(int set_size, int position) {
    ASSERT_TRUE(handle->status().ok()) << handle->status().ToString();
    const int64_t n = set_size;
    std::vector<int64_t> expected;
    switch (kind) {
      case OpKind::kAllreduce:
        ASSERT_EQ(out, std::vector<int64_t>(in.size(), n * number + n * (n - 1) / 2));
        break;
      case OpKind::kAllgather:
        for (int64_t m = 0; m < n; ++m) {
          expected.insert(expected.end(),
                          static_cast<size_t>(std::min<int64_t>(m, number * 37 % 3000)),
                          m + number);
          if (number * 37 % 3000 < m)
            expected.insert(expected.end(), static_cast<size_t>(m - number * 37 % 3000), m);
        }
        ASSERT_EQ(Output<int64_t>(handle), expected);
        break;
      case OpKind::kBroadcast:
        ASSERT_EQ(in, std::vector<int64_t>(in.size(), number % n + number));
        break;
      case OpKind::kAlltoall:
        for (int64_t m = 0; m < n; ++m) expected.insert(expected.end(), 2, m);
        ASSERT_EQ(Output<int64_t>(handle), expected);
        break;
      case OpKind::kReducescatter:
        ASSERT_EQ(Output<int64_t>(handle), std::vector<int64_t>(position == 0 ? 2 : 1, n));
        break;
      default: break;
    }
  }
};

TEST_P(EngineOrder, hundreds_of_operations_submitted_in_another_order_on_each_rank) {
  RunRanks(Options(), [](Rank& me) {
    for (int step = 0; step < 3; ++step) {  // the later steps by slot
      std::vector<Pending> ops(300);
      for (int i = 0; i < 300; ++i) ops[static_cast<size_t>(i)].number = i;
      std::mt19937 random(static_cast<uint32_t>(me.rank * 10 + step));
      std::shuffle(ops.begin(), ops.end(), random);
      for (Pending& op : ops) {
        op.Submit(&me, me.size, me.rank, 0);
        if (random() % 20 == 0) usleep(random() % 500);
      }
      std::shuffle(ops.begin(), ops.end(), random);
      for (Pending& op : ops) {
        if (random() % 4 == 0) {
          ASSERT_NE(op.handle, nullptr);
          ASSERT_TRUE(me.Wait(op.handle, random() % 2 == 0 ? kMillisecond : kSecond).ok());
        }
      }
      for (Pending& op : ops) {
        ASSERT_TRUE(me.Wait(op.handle).ok());
        op.Check(me.size, me.rank);
      }
    }
  });
}

TEST_P(EngineOrder, several_threads_of_each_rank_mix_blocking_and_asynchronous_calls) {
  RunRanks(Options(), [](Rank& me) {
    InThreads(4, [&me](int t) {
      std::mt19937 random(static_cast<uint32_t>(me.rank * 100 + t));
      for (int round = 0; round < 40; ++round) {
        const std::string name = "t" + std::to_string(t) + ".";
        std::vector<float> x(1 + random() % 1 + static_cast<size_t>(round * 100), 1), y(x), z(x);
        const HandlePtr a = me.Submit(Allreduce(name + "a", x, &x));
        if (random() % 3 == 0) usleep(random() % 300);
        ASSERT_TRUE(me.Do(Allreduce(name + "b", y, &y)).ok());
        const HandlePtr c = me.Submit(Allreduce(name + "c", z, &z), 0, /*will_wait=*/true);
        if (t % 2 == 0) {
          ASSERT_TRUE(me.Poll(a).ok());
        } else {
          ASSERT_TRUE(me.Wait(a).ok());
        }
        ASSERT_TRUE(me.Wait(c).ok());
        const std::vector<float> expected(x.size(), static_cast<float>(me.size));
        ASSERT_EQ(x, expected);
        ASSERT_EQ(y, expected);
        ASSERT_EQ(z, expected);
      }
    });
  });
}

TEST_P(EngineOrder, a_job_of_random_delays) {
  RunRanks(Options(), [](Rank& me) {
    std::mt19937 random(static_cast<uint32_t>(me.rank));
    for (int round = 0; round < 60; ++round) {
      std::vector<int32_t> x(static_cast<size_t>(round * 997 % 70000), 1);
      usleep(random() % 3000);
      const HandlePtr handle = me.Submit(Allreduce("x", x, &x));
      usleep(random() % 3000);
      ASSERT_TRUE(me.Wait(handle).ok());
      ASSERT_EQ(x, std::vector<int32_t>(x.size(), me.size));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Shm, EngineOrder,
                         ::testing::Values(Job{2, 1}, Job{3, 1}, Job{4, 1}, Job{8, 1}));
INSTANTIATE_TEST_SUITE_P(Net, EngineOrder, ::testing::Values(Job{3, 3}));
INSTANTIATE_TEST_SUITE_P(Hierarchical, EngineOrder, ::testing::Values(Job{4, 2}, Job{5, 2}));
INSTANTIATE_TEST_SUITE_P(Mpi, EngineOrder,
                         ::testing::Values(Job{2, 1, true}, Job{3, 1, true}, Job{3, 3, true},
                                           Job{4, 2, true}, Job{5, 2, true}));

TEST(EngineBits, twenty_runs_give_the_same_bits_on_all_ranks) {
  std::vector<float> first;
  std::mutex mutex;
  for (int run = 0; run < 20; ++run) {
    RunRanks({.size = 3}, [&](Rank& me) {
      std::mt19937 random(static_cast<uint32_t>(me.rank));
      std::uniform_real_distribution<float> values(-1, 1);
      std::vector<float> x(70001);
      for (float& v : x) v = values(random);
      std::vector<float> small(x.begin(), x.begin() + 100);
      if (random() % 2 == 0) usleep(random() % 1000);
      const HandlePtr a = me.Submit(Allreduce("x", x, &x, ReduceOp::kAverage));
      ASSERT_TRUE(me.Do(Allreduce("small", small, &small)).ok());
      ASSERT_TRUE(me.Wait(a).ok());
      x.insert(x.end(), small.begin(), small.end());
      std::lock_guard<std::mutex> lock(mutex);
      if (first.empty()) first = x;
      ASSERT_EQ(memcmp(first.data(), x.data(), x.size() * sizeof(float)), 0);
    });
  }
}

}  // namespace
}  // namespace hvdlite::testing
