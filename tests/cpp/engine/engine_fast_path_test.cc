// Small blocking allreduces that the ranks know from before: performed on the fast path if all
// come, by negotiation otherwise. In both cases each rank gets the right sum, and nothing waits for
// ever.
#include <random>

#include "engine/job.h"
#include "testing/ranks.h"

namespace hvdlite::testing {
namespace {

using comm::Carrier;
using engine::Request;
using engine::Submission;

// As Runtime::Run does it. An empty name: the operation has none.
template <typename T>
Status Perform(Rank* me, const std::string& name, std::vector<T>* x, int set = 0,
               ReduceOp op = ReduceOp::kSum) {
  const std::string full = name.empty() ? name : "allreduce." + name;
  const Shape shape = {static_cast<int64_t>(x->size())};
  engine::KnownOperation asked;
  asked.op = op;
  asked.dtype = DTypeOf<T>();
  asked.name = full;
  asked.shape = shape.data();
  asked.dimensions = 1;
  asked.bytes = x->size() * sizeof(T);
  asked.input = asked.output = x->data();
  bool offered = false;
  if (me->engine->fast_path().Perform(set, asked, &offered)) return Status::Ok();
  Submission submission = Allreduce(full, *x, x, op);
  submission.request.cacheable = !name.empty();
  submission.offered = offered;
  if (name.empty())
    submission.request.name =
        "allreduce." +
        (offered ? engine::kOfferedWithoutName : me->engine->sets().DefaultName(set, "allreduce"));
  return me->Do(std::move(submission), set);
}

template <typename T>
void Do(Rank* me, const std::string& name, std::vector<T>* x, int set = 0,
        ReduceOp op = ReduceOp::kSum) {
  const Status status = Perform(me, name, x, set, op);
  ASSERT_TRUE(status.ok()) << status.ToString();
}

uint64_t FastCount(const Rank& me) {
  const comm::CarrierCounts& counts = me.engine->world().carrier_counts();
  return counts.By(Carrier::kShmFastPath, OpKind::kAllreduce) +
         counts.By(Carrier::kNetMeeting, OpKind::kAllreduce);
}

engine::KnownOperation Asked(std::string_view name, const Shape& shape, std::vector<int64_t>* x) {
  engine::KnownOperation asked;
  asked.dtype = DType::kInt64;
  asked.name = name;
  asked.shape = shape.data();
  asked.dimensions = static_cast<int>(shape.size());
  asked.bytes = x->size() * sizeof(int64_t);
  asked.input = asked.output = x->data();
  return asked;
}

// Until an operation of that name was performed on the fast path. If each wait spins for a long
// time, that is soon: no rank is too late for another.
void DoUntilFast(Rank* me, const std::string& name, int set = 0) {
  const int64_t members = static_cast<int64_t>(me->engine->sets().Members(set)->size());
  const uint64_t before = FastCount(*me);
  // The ranks agree when to stop, because an exchange is complete for all or for none.
  for (int tries = 0; FastCount(*me) == before; ++tries) {
    ASSERT_LT(tries, 10000) << "the ranks never take the fast path";
    std::vector<int64_t> x(3, 1);
    ASSERT_NO_FATAL_FAILURE(Do(me, name, &x, set));
    ASSERT_EQ(x, std::vector<int64_t>(3, members));
  }
}

Request OfLength(int64_t length) {
  Request request;
  request.shape = {length};
  request.name = "allreduce.noname." + std::to_string(length);
  request.cacheable = false;
  return request;
}

uint64_t NumberOf(const engine::Unnamed& unnamed, int64_t length) {
  engine::KnownOperation asked;
  asked.shape = &length;
  asked.dimensions = 1;
  uint64_t number = 0;
  return unnamed.Find(asked, &number) == nullptr ? 0 : number;
}

TEST(Unnamed, has_one_number_for_all_that_ask_for_the_same_and_forgets_the_oldest) {
  engine::Unnamed unnamed(16 << 10);
  EXPECT_EQ(NumberOf(unnamed, 1), 0u);
  for (const int64_t length : {1, 2, 1}) unnamed.Performed(OfLength(length));
  const uint64_t one = NumberOf(unnamed, 1);
  EXPECT_NE(one, 0u);
  EXPECT_EQ(NumberOf(unnamed, 2), one + 1);
  for (int64_t length = 3; length <= 17; ++length) unnamed.Performed(OfLength(length));
  EXPECT_EQ(NumberOf(unnamed, 1), 0u);
  EXPECT_EQ(NumberOf(unnamed, 2), one + 1);
  EXPECT_EQ(NumberOf(unnamed, 17), one + 16);
  unnamed.Performed(OfLength(1));
  EXPECT_EQ(NumberOf(unnamed, 1), one + 17);
}

TEST(Unnamed, leaves_out_what_is_never_fast) {
  engine::Unnamed unnamed(16 << 10);
  Request grouped = OfLength(1), coded = OfLength(1), adasum = OfLength(1), on_gpu = OfLength(1);
  grouped.group = 5;
  coded.codec = {Codec::kInt8, 0};
  adasum.op = ReduceOp::kAdasum;
  on_gpu.device = DeviceKind::kCuda;
  for (const Request& each : {grouped, coded, adasum, on_gpu, OfLength(4097)})
    unnamed.Performed(each);
  EXPECT_EQ(NumberOf(unnamed, 1), 0u);
  EXPECT_EQ(NumberOf(unnamed, 4097), 0u);
}

struct Where {
  int size;
  int hosts;
};

class EngineFastPath : public ::testing::TestWithParam<Where> {
 protected:
  RanksOptions Options() const {
    return {.size = GetParam().size, .hosts = GetParam().hosts, .limit_seconds = 120};
  }
  // Ranks wait for one another in exchanges, also where the machine is busy.
  RanksOptions Certain() const {
    RanksOptions options = Options();
    options.config.spin_microseconds = 10'000'000;
    return options;
  }
};

TEST_P(EngineFastPath, performs_an_operation_that_all_ranks_know) {
  RunRanks(Certain(), [](Rank& me) {
    std::vector<int64_t> first(3, 1);
    Do(&me, "x", &first);
    EXPECT_EQ(FastCount(me), 0u);  // nobody knew it
    DoUntilFast(&me, "x");
  });
}

TEST_P(EngineFastPath, performs_operations_without_a_name) {
  RunRanks(Certain(), [](Rank& me) {
    DoUntilFast(&me, "");
    std::minstd_rand random(31);  // the same on all ranks
    const uint64_t before = FastCount(me);
    for (int round = 0; round < 400; ++round) {  // of more kinds than are remembered
      std::vector<int64_t> x(1 + random() % 24, round);
      ASSERT_NO_FATAL_FAILURE(Do(&me, random() % 3 == 0 ? "named" : "", &x));
      ASSERT_EQ(x.back(), int64_t{round} * me.size);
    }
    EXPECT_GT(FastCount(me), before);
  });
}

// Their numbers differ, so that no rank takes the others' tensors for its own.
TEST_P(EngineFastPath, ranks_that_ask_for_others_without_a_name_are_told_so) {
  RunRanks(Certain(), [](Rank& me) {
    for (int round = 0; round < 5; ++round) {
      DoUntilFast(&me, "");
      std::vector<int64_t> same(4, 1);
      ASSERT_NO_FATAL_FAILURE(Do(&me, "", &same));
      std::vector<int64_t> other(me.rank == 0 ? 3 : 4, 1);
      EXPECT_EQ(Perform(&me, "", &other).code(), StatusCode::kMismatch);
    }
  });
}

TEST_P(EngineFastPath, remembers_no_operation_without_slots) {
  RanksOptions options = Certain();
  options.config.cache_capacity = 0;
  RunRanks(options, [](Rank& me) {
    for (int round = 0; round < 50; ++round) {
      std::vector<int64_t> x(3, 1);
      ASSERT_NO_FATAL_FAILURE(Do(&me, "", &x));
    }
    EXPECT_EQ(FastCount(me), 0u);
  });
}

TEST_P(EngineFastPath, gives_the_bits_of_the_other_algorithms) {
  RunRanks(Certain(), [](Rank& me) {
    std::minstd_rand random(static_cast<unsigned>(me.rank));
    DoUntilFast(&me, "start");
    for (const size_t count : {1, 12, 13, 1000, 4096}) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMax}) {
        const std::string name = std::to_string(count) + "/" + std::to_string(int(op));
        std::vector<float> mine(count);
        for (float& each : mine) each = static_cast<float>(random()) / 3e5f - 1e3f;
        std::vector<float> negotiated = mine;
        ASSERT_TRUE(me.Do(Allreduce("allreduce." + name, mine, &negotiated, op)).ok());
        for (const uint64_t before = FastCount(me); FastCount(me) == before;) {
          std::vector<float> fast = mine;
          ASSERT_NO_FATAL_FAILURE(Do(&me, name, &fast, 0, op));
          ASSERT_EQ(memcmp(fast.data(), negotiated.data(), count * sizeof(float)), 0) << name;
        }
      }
    }
  });
}

// Everything that makes an operation another one than the ranks know.
TEST_P(EngineFastPath, leaves_an_operation_alone_that_differs) {
  RunRanks(Options(), [](Rank& me) {
    std::vector<float> x(4, 1);
    Do(&me, "x", &x);
    const Shape known = {4};
    const Shape other = {2, 2};
    engine::KnownOperation asked;
    asked.name = "allreduce.x";
    asked.shape = known.data();
    asked.dimensions = 1;
    asked.bytes = x.size() * sizeof(x[0]);
    asked.input = asked.output = x.data();
    engine::KnownOperation differs[6] = {asked, asked, asked, asked, asked, asked};
    differs[0].op = ReduceOp::kMax;
    differs[1].dtype = DType::kInt32;
    differs[2].prescale = 2;
    differs[3].postscale = 2;
    differs[4].shape = other.data();
    differs[4].dimensions = 2;
    differs[5].name = "allreduce.y";
    bool offered = false;
    for (const engine::KnownOperation& each : differs) {
      EXPECT_FALSE(me.engine->fast_path().Perform(0, each, &offered));
      EXPECT_FALSE(offered);
    }
    // There is no such process set.
    EXPECT_FALSE(me.engine->fast_path().Perform(7, asked, &offered));
    EXPECT_EQ(x[0], static_cast<float>(me.size));
    ASSERT_TRUE(me.Do(Barrier()).ok());
  });
}

TEST_P(EngineFastPath, leaves_large_tensors_alone) {
  RunRanks(Certain(), [](Rank& me) {
    DoUntilFast(&me, "small");
    const uint64_t before = FastCount(me);
    for (int i = 0; i < 50; ++i) {
      std::vector<float> x(17000, 1);
      Do(&me, "large", &x);
      ASSERT_EQ(x[16999], static_cast<float>(me.size));
    }
    EXPECT_EQ(FastCount(me), before);
  });
}

TEST_P(EngineFastPath, off_by_its_knob) {
  RanksOptions options = Options();
  options.config.shm_meetings = options.config.net_meetings = false;
  RunRanks(options, [](Rank& me) {
    for (int i = 0; i < 200; ++i) {
      std::vector<int64_t> x(3, 1);
      Do(&me, "x", &x);
      ASSERT_EQ(x[0], me.size);
    }
    EXPECT_EQ(FastCount(me), 0u);
  });
}

// The ranks come in different orders with different names, so that topics differ in nearly all
// exchanges.
TEST_P(EngineFastPath, ranks_that_want_different_operations_negotiate) {
  RunRanks(Options(), [](Rank& me) {
    for (int round = 0; round < 100; ++round) {
      std::vector<int64_t> a(2, 1), b(2, 10), y(2, 100);
      std::vector<std::thread> threads;
      // Two threads of a rank ask at once, each for one of two names.
      threads.emplace_back([&] { Do(&me, "a", &a); });
      threads.emplace_back([&] { Do(&me, "b", &b); });
      for (std::thread& thread : threads) thread.join();
      Do(&me, "y", &y);
      ASSERT_EQ(a[1] + b[1] + y[1], 111 * me.size);
    }
  });
}

// Decisions that change what slots stand for arrive while ranks meet.
TEST_P(EngineFastPath, slots_that_are_forgotten_again_and_again) {
  RanksOptions options = Options();
  options.config.cache_capacity = 3;
  RunRanks(options, [](Rank& me) {
    std::minstd_rand random(17);  // the same on all ranks
    for (int round = 0; round < 600; ++round) {
      const std::string name = "n" + std::to_string(random() % 6);
      std::vector<int64_t> x(static_cast<size_t>(1 + random() % 2), round);
      ASSERT_NO_FATAL_FAILURE(Do(&me, name, &x));
      ASSERT_EQ(x[0], int64_t{round} * me.size);
    }
  });
}

// Blocking and asynchronous operations in any order, late ranks, and delays wherever threads race.
TEST_P(EngineFastPath, among_other_operations_with_delays) {
  RanksOptions options = Options();
  options.config.debug_delay_microseconds = 300;
  RunRanks(options, [](Rank& me) {
    std::minstd_rand random(23);  // the same on all ranks
    for (int round = 0; round < 150; ++round) {
      std::vector<int64_t> a(2, 1), b(2, 10);
      HandlePtr under_way;
      const bool async = random() % 3 == 0;
      if (async) under_way = me.Submit(Allreduce("allreduce.async", a, &a));
      ASSERT_NO_FATAL_FAILURE(Do(&me, "blocking", &b));
      ASSERT_EQ(b[1], 10 * me.size);
      if (!async) continue;
      ASSERT_TRUE(me.Wait(under_way).ok());
      ASSERT_EQ(a[0], me.size);
    }
  });
}

TEST_P(EngineFastPath, in_overlapping_process_sets) {
  RanksOptions options = Options();
  const int n = options.size;
  for (int r = 0; r < n; ++r) options.process_sets.push_back({r, (r + 1) % n});
  RunRanks(options, [n](Rank& me) {
    const int left = (me.rank + n - 1) % n + 1;
    const int right = me.rank + 1;
    for (int round = 0; round < 100; ++round) {
      // Rank 0 begins at its other side, so that no circle of waiting closes.
      for (const int set :
           me.rank == 0 ? std::vector<int>{right, left} : std::vector<int>{left, right}) {
        std::vector<int64_t> x(2, 1);
        ASSERT_NO_FATAL_FAILURE(Do(&me, "x", &x, set));
        ASSERT_EQ(x[0], 2);
      }
      std::vector<int64_t> all(2, 1);
      ASSERT_NO_FATAL_FAILURE(Do(&me, "all", &all));
      ASSERT_EQ(all[1], n);
    }
  });
}

TEST_P(EngineFastPath, a_joined_rank_is_not_waited_for) {
  RunRanks(Certain(), [](Rank& me) {
    DoUntilFast(&me, "x");
    if (me.rank == 0) {
      ASSERT_TRUE(me.Do(Join()).ok());
    } else {
      for (int i = 0; i < 20; ++i) {
        std::vector<int64_t> x(3, 1);
        ASSERT_NO_FATAL_FAILURE(Do(&me, "x", &x));
        ASSERT_EQ(x[0], me.size - 1);
      }
      ASSERT_TRUE(me.Do(Join()).ok());
    }
    DoUntilFast(&me, "x");
  });
}

TEST_P(EngineFastPath, ends_when_another_rank_aborts) {
  RunRanks(Certain(), [](Rank& me) {
    DoUntilFast(&me, "x");
    if (me.rank == 0) return me.engine->Abort(Status::PeerLost(0, "rank 0 has had enough"));
    std::vector<int64_t> x(3, 1);
    const std::string full = "allreduce.x";
    Status status;
    while (status.ok()) status = me.Do(Allreduce(full, x, &x));
    EXPECT_EQ(status.peer(), 0);
  });
}

TEST_P(EngineFastPath, a_rank_that_leaves_ends_the_job_for_ranks_that_meet) {
  RunRanks(Options(), [](Rank& me) {
    std::vector<int64_t> known(3, 1);
    Do(&me, "x", &known);
    if (me.rank == 0) return;
    Status status;
    while (status.ok()) {
      std::vector<int64_t> x(3, 1);
      status = Perform(&me, "x", &x);
      ASSERT_EQ(FastCount(me), 0u);  // without rank 0 nothing is complete
    }
    EXPECT_EQ(status.code(), StatusCode::kShutDown) << status.ToString();
  });
}

TEST_P(EngineFastPath, reduces_in_place_what_all_ranks_share) {
  RanksOptions options = Certain();
  options.pool = true;
  options.config.debug_delay_microseconds = 100;
  RunRanks(options, [this](Rank& me) {
    constexpr int64_t kLength = 8000;
    const Shape shape = {kLength};
    auto* const shared = static_cast<int64_t*>(me.segment->Allocate(kLength * sizeof(int64_t)));
    std::vector<int64_t> own(kLength);
    const auto before = FastCount(me);
    for (int round = 0; round < 100; ++round) {
      // Now and then one rank has another tensor, which lies elsewhere.
      int64_t* const x = round % 10 == 9 && me.rank == round / 10 % me.size ? own.data() : shared;
      std::fill(x, x + kLength, round + me.rank);
      engine::KnownOperation asked = Asked("allreduce.x", shape, &own);
      asked.input = asked.output = x;
      bool offered = false;
      if (!me.engine->fast_path().Perform(0, asked, &offered)) {
        Submission submission = Allreduce("allreduce.x", own, &own);
        submission.input.data = submission.output.data = x;
        ASSERT_TRUE(me.Do(std::move(submission)).ok());
      }
      const int64_t expected = int64_t{round} * me.size + me.size * (me.size - 1) / 2;
      ASSERT_EQ(x[0], expected);
      ASSERT_TRUE(std::all_of(x, x + kLength, [&](int64_t each) { return each == expected; }));
    }
    if (GetParam().hosts == 1) {
      EXPECT_GT(FastCount(me), before);
      const auto& counts = me.engine->world().carrier_counts();
      EXPECT_GE(counts.By(Carrier::kShmInPlace, OpKind::kAllreduce), FastCount(me) - before);
    }
    ASSERT_TRUE(me.Do(Barrier()).ok());
  });
}

// One rank asks for what has no name before the other comes, in vain or not; then both take a
// number.
TEST_P(EngineFastPath, numbers_of_operations_without_a_name_stay_equal) {
  RunRanks(Options(), [](Rank& me) {
    std::minstd_rand random(41);  // the same on all ranks
    for (int round = 0; round < 300; ++round) {
      if (static_cast<int>(random() % 4) == me.rank) usleep(100);
      std::vector<int64_t> small(1 + random() % 3, 1);
      ASSERT_NO_FATAL_FAILURE(Do(&me, "", &small));
      ASSERT_EQ(small[0], me.size);
      if (random() % 3 != 0) continue;
      std::vector<int64_t> large(static_cast<size_t>(9000 + round), 1);
      ASSERT_NO_FATAL_FAILURE(Do(&me, "", &large));
      ASSERT_EQ(large.back(), me.size);
    }
  });
}

// A timeline shows every operation, so its rank does not come.
TEST_P(EngineFastPath, a_rank_with_a_timeline_has_all_ranks_negotiate) {
  const std::string file = ::testing::TempDir() + "/fast_path_timeline.json";
  RunRanks(Certain(), [&](Rank& me) {
    DoUntilFast(&me, "x");
    if (me.rank == 0) {
      ASSERT_TRUE(me.engine->observer().StartTimeline(file, false).ok());
    }
    ASSERT_TRUE(me.Do(Barrier()).ok());
    const uint64_t before = FastCount(me);
    for (int i = 0; i < 100; ++i) {
      std::vector<int64_t> x(3, 1);
      ASSERT_NO_FATAL_FAILURE(Do(&me, "x", &x));
      ASSERT_EQ(x[0], me.size);
    }
    EXPECT_EQ(FastCount(me), before);
    ASSERT_TRUE(me.Do(Barrier()).ok());
    if (me.rank == 0) me.engine->observer().StopTimeline();
    DoUntilFast(&me, "x");
  });
}

INSTANTIATE_TEST_SUITE_P(OfRanks, EngineFastPath,
                         ::testing::Values(Where{2, 1}, Where{3, 1}, Where{2, 2}));

constexpr RanksOptions kTwoHosts{.size = 2, .hosts = 2, .limit_seconds = 120};

TEST(EngineMeeting, members_that_cannot_meet_negotiate_also_what_is_empty) {
  RunRanks({.size = 3, .hosts = 2}, [](Rank& me) {
    for (int round = 0; round < 5; ++round) {
      for (const char* const name : {"x", ""}) {
        std::vector<int64_t> nothing, some(3, 1);
        ASSERT_NO_FATAL_FAILURE(Do(&me, name, &nothing));
        ASSERT_NO_FATAL_FAILURE(Do(&me, name, &some));
        ASSERT_EQ(some[0], 3);
      }
    }
    EXPECT_EQ(FastCount(me), 0u);
  });
}

// Announcements are what stall reports are made of.
TEST(EngineMeeting, a_rank_that_comes_late_has_the_other_negotiate) {
  std::atomic<bool> announced{false};
  RunRanks(kTwoHosts, [&](Rank& me) {
    DoUntilFast(&me, "x");
    std::vector<int64_t> x(3, 1);
    if (me.rank == 1) {
      while (!announced) usleep(1000);
      ASSERT_NO_FATAL_FAILURE(Do(&me, "x", &x));
      return;
    }
    bool offered = false;
    const Shape shape = {3};
    EXPECT_FALSE(me.engine->fast_path().Perform(0, Asked("allreduce.x", shape, &x), &offered));
    announced = !offered;
    ASSERT_TRUE(offered);
    const std::string before = me.engine->Metrics();
    Submission submission = Allreduce("allreduce.x", x, &x);
    submission.offered = true;
    const HandlePtr handle = me.Submit(std::move(submission));
    const auto negotiated = [](const std::string& metrics) {
      const size_t at = metrics.find("requests_by_slot");
      return metrics.substr(at, metrics.find(',', at) - at);
    };
    while (negotiated(me.engine->Metrics()) == negotiated(before)) usleep(1000);
    announced = true;
    ASSERT_TRUE(me.Wait(handle).ok());
    EXPECT_EQ(x[0], 2);
  });
}

TEST(EngineMeeting, an_offer_in_vain_takes_its_number_then) {
  constexpr int kRounds = 20;
  std::atomic<int> offers{0};
  RunRanks(kTwoHosts, [&](Rank& me) {
    const Shape shape = {5};
    std::vector<int64_t> y(2, 1);
    for (int round = 0; round < kRounds; ++round) {
      for (int i = 0; i < 3; ++i) {
        std::vector<int64_t> x(5, 1);
        ASSERT_NO_FATAL_FAILURE(Do(&me, "", &x));
      }
      std::vector<int64_t> x(5, 1);
      HandlePtr handle;
      if (me.rank == 0) {
        bool offered = false;
        const bool performed = me.engine->fast_path().Perform(0, Asked("", shape, &x), &offered);
        Submission submission =
            Allreduce("allreduce." + (offered ? engine::kOfferedWithoutName
                                              : me.engine->sets().DefaultName(0, "allreduce")),
                      x, &x);
        submission.request.cacheable = false;
        submission.offered = offered;
        ASSERT_FALSE(performed);
        const HandlePtr late = me.Submit(std::move(submission));
        ++offers;
        handle = me.Submit(Allreduce("allreduce.y", y, &y));
        ASSERT_TRUE(me.Wait(late).ok());
      } else {
        while (offers == round) usleep(200);
        // A rank that negotiates declines.
        handle = me.Submit(Allreduce("allreduce.y", y, &y));
        ASSERT_NO_FATAL_FAILURE(Do(&me, "", &x));
      }
      ASSERT_EQ(x[0], 2);
      ASSERT_TRUE(me.Wait(handle).ok());
      std::vector<int64_t> large(9000, 1);
      ASSERT_NO_FATAL_FAILURE(Do(&me, "", &large));
    }
  });
}

// The call that has offered fails for a reason of its own. The promise is kept all the same.
TEST(EngineMeeting, an_offer_that_is_abandoned_still_counts) {
  std::atomic<bool> abandoned{false};
  RunRanks(kTwoHosts, [&](Rank& me) {
    std::vector<int64_t> x(3, 1);
    ASSERT_NO_FATAL_FAILURE(Do(&me, "x", &x));
    x.assign(3, 1);
    if (me.rank == 0) {
      bool offered = false;
      const Shape shape = {3};
      EXPECT_FALSE(me.engine->fast_path().Perform(0, Asked("allreduce.x", shape, &x), &offered));
      if (offered) me.engine->fast_path().Abandon(0);
      abandoned = true;
      ASSERT_TRUE(offered);
    } else {
      while (!abandoned) usleep(1000);
      ASSERT_NO_FATAL_FAILURE(Do(&me, "x", &x));
    }
    ASSERT_TRUE(me.Do(Barrier()).ok());
    EXPECT_EQ(x[0], me.rank == 0 ? 1 : 2);
    for (int i = 0; i < 100; ++i) {
      std::vector<int64_t> y(3, 1);
      ASSERT_NO_FATAL_FAILURE(Do(&me, "y", &y));
      ASSERT_EQ(y[0], 2);
    }
  });
}

}  // namespace
}  // namespace hvdlite::testing
