// The pass in place against the shares algorithm, bit for bit: dtypes, reductions, scales, odd
// lengths, members, and tensors of which some lie in shared memory and some do not.
#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "comm/carrier_counts.h"
#include "comm/shm/in_place.h"
#include "comm/shm_world.h"
#include "testing/says.h"
#include "testing/tier.h"

namespace hvdlite::comm::shm_testing {
namespace {

using net_testing::Bytes;

constexpr size_t kRoom = size_t{64} << 20;

enum class Where : uint8_t {
  kShared,     // in every member's segment
  kElsewhere,  // on one member outside of it
  kApart,      // in the segment, with a result of its own
};

// What all members are told to reduce.
struct Task {
  DType dtype = DType::kFloat32;
  kernels::ReduceSpec reduce;
  std::vector<int64_t> counts;
  std::vector<Where> where;
};

// Members with a segment each.
class InPlaceWorld {
 public:
  explicit InPlaceWorld(int members, size_t chunk_bytes = 16384, size_t small_bytes = 0)
      : world_(members, chunk_bytes, small_bytes), carrier_counts_(static_cast<size_t>(members)) {
    std::vector<int> local_ranks;
    for (int m = 0; m < members; ++m) {
      local_ranks.push_back(m);
      segments_.emplace_back();
      EXPECT_TRUE(pool::Segment::Create(nullptr, kRoom, &segments_.back()).ok());
      segments_.back()->Limit(kRoom);
    }
    for (int m = 0; m < members; ++m) {
      peers_.push_back(std::make_unique<pool::Peers>(members, m, segments_[size_t(m)].get()));
      for (int other = 0; other < members; ++other)
        peers_.back()->Add(other, *segments_[size_t(other)]);
      world_.communicator(m).ReduceInPlace({peers_.back().get(), local_ranks});
      world_.communicator(m).CountIn(&carrier_counts_[size_t(m)]);
    }
  }

  ShmWorld& world() { return world_; }
  pool::Segment& segment(int m) { return *segments_[size_t(m)]; }
  pool::Peers& peers(int m) { return *peers_[size_t(m)]; }
  uint64_t Passes(int m) {
    return carrier_counts_[size_t(m)].By(Carrier::kShmInPlace, OpKind::kAllreduce);
  }
  uint64_t Others(int m) {
    return carrier_counts_[size_t(m)].By(Carrier::kShmShares, OpKind::kAllreduce) +
           carrier_counts_[size_t(m)].By(Carrier::kShmExchange, OpKind::kAllreduce);
  }
  // Freed with the world.
  char* Allocate(int m, size_t bytes) {
    const size_t size = std::max(bytes, pool::kSmallestBlock);
    segment(m).Expect(size, 1);
    return static_cast<char*>(segment(m).Take(size));
  }

 private:
  ShmWorld world_;
  std::vector<std::unique_ptr<pool::Segment>> segments_;
  std::vector<std::unique_ptr<pool::Peers>> peers_;
  std::vector<CarrierCounts> carrier_counts_;
};

Bytes RandomBytes(const Task& task, int64_t count, std::mt19937* random) {
  const size_t size = SizeOf(task.dtype);
  Bytes bytes(static_cast<size_t>(count) * size);
  std::uniform_real_distribution<double> real(-3, 3);
  for (int64_t i = 0; i < count; ++i) {
    const double value = IsFloating(task.dtype) ? real(*random) : static_cast<double>(i % 7);
    net_testing::Put(task.dtype, value, bytes.data() + static_cast<size_t>(i) * size);
  }
  return bytes;
}

// [member][piece]
using Values = std::vector<std::vector<Bytes>>;

Values RandomValues(const Task& task, int members, uint32_t seed) {
  std::mt19937 random(seed);
  Values values(static_cast<size_t>(members));
  for (auto& mine : values) {
    for (int64_t count : task.counts) mine.push_back(RandomBytes(task, count, &random));
  }
  return values;
}

Batch BatchOf(const Task& task, const std::vector<Piece>& pieces) {
  Batch batch;
  batch.kind = OpKind::kAllreduce;
  batch.dtype = task.dtype;
  batch.reduce = task.reduce;
  batch.pieces = pieces;
  return batch;
}

// By shares alone.
Values Expected(const Task& task, Values values) {
  ShmWorld world(static_cast<int>(values.size()), 16384, 0);
  world.Run([&](int m) {
    std::vector<Piece> pieces;
    for (size_t p = 0; p < task.counts.size(); ++p) {
      Bytes& mine = values[size_t(m)][p];
      pieces.push_back({mine.data(), mine.data(), task.counts[p], {}});
    }
    const Batch batch = BatchOf(task, pieces);
    const auto work = world.communicator(m).Start(batch);
    world.Drive(m, work.get(), 10);
  });
  return values;
}

void Check(InPlaceWorld* in_place, const Task& task, uint32_t seed) {
  const int members = in_place->world().size();
  const Values values = RandomValues(task, members, seed);
  const Values expected = Expected(task, values);
  in_place->world().Run([&](int m) {
    std::vector<Piece> pieces;
    Values keep(1);
    for (size_t p = 0; p < task.counts.size(); ++p) {
      const Bytes& mine = values[size_t(m)][p];
      char* input = in_place->Allocate(m, mine.size() + 64) + seed % 3 * SizeOf(task.dtype);
      if (task.where[p] == Where::kElsewhere && m == static_cast<int>(p) % members) {
        keep[0].push_back(mine);
        input = keep[0].back().data();
      }
      std::copy(mine.begin(), mine.end(), input);
      char* output = input;
      if (task.where[p] == Where::kApart) output = in_place->Allocate(m, mine.size());
      pieces.push_back({input, output, task.counts[p], {}});
    }
    const Batch batch = BatchOf(task, pieces);
    const auto work = in_place->world().communicator(m).Start(batch);
    in_place->world().Drive(m, work.get(), m % 2 * 20);
    for (size_t p = 0; p < pieces.size(); ++p) {
      const Bytes& want = expected[size_t(m)][p];
      ASSERT_TRUE(std::equal(want.begin(), want.end(), static_cast<char*>(pieces[p].output)))
          << Name(task.dtype) << " " << Name(task.reduce.op) << " piece " << p << " member " << m
          << " seed " << seed;
    }
  });
}

class ShmInPlace : public ::testing::TestWithParam<int> {};

TEST_P(ShmInPlace, gives_the_bits_of_the_shares_algorithm) {
  const testing::Watchdog watchdog(300);
  InPlaceWorld world(GetParam());
  uint32_t seed = 0;
  for (int dtype = 0; dtype < kDTypeCount; ++dtype) {
    for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
      Task task;
      task.dtype = static_cast<DType>(dtype);
      task.reduce = {task.dtype, op, 1, 1, 1};
      if (op == ReduceOp::kSum && seed % 2 == 0)
        task.reduce = {task.dtype, op, 0.3, 1.7, static_cast<double>(GetParam())};
      task.counts = {4099, 1, 0, 70'001, 17};
      task.where.assign(task.counts.size(), Where::kShared);
      Check(&world, task, ++seed);
    }
  }
  for (int m = 0; m < GetParam(); ++m) {
    EXPECT_EQ(world.Passes(m), seed);
    EXPECT_EQ(world.Others(m), seed) << "the empty tensor alone";
  }
}

TEST_P(ShmInPlace, tensors_elsewhere_on_one_member_are_copied_by_all) {
  const testing::Watchdog watchdog(300);
  InPlaceWorld world(GetParam(), 16384, 4096);
  for (uint32_t seed = 0; seed < 30; ++seed) {
    Task task;
    task.dtype = seed % 2 == 0 ? DType::kFloat32 : DType::kBFloat16;
    task.reduce = {task.dtype, ReduceOp::kSum, 1, 1, 3};
    std::mt19937 random(seed);
    for (uint32_t p = 0; p <= seed % 6; ++p) {
      task.counts.push_back(5'000 + static_cast<int64_t>(random() % 30'000));
      task.where.push_back(static_cast<Where>(random() % 3));
    }
    Check(&world, task, seed);
  }
  EXPECT_GT(world.Passes(0), 0u);
  EXPECT_GT(world.Others(0), 0u);
}

TEST_P(ShmInPlace, the_ways_follow_one_another_without_a_barrier) {
  const testing::Watchdog watchdog(300);
  InPlaceWorld world(GetParam(), 4096, 4096);
  constexpr int64_t kCount = 9'001;
  constexpr int kTurns = 200;
  world.world().Run([&](int m) {
    auto* const shared = reinterpret_cast<float*>(world.Allocate(m, kCount * sizeof(float)));
    std::vector<float> elsewhere(kCount), small(10);
    Task task;
    task.reduce = {DType::kFloat32, ReduceOp::kMax, 1, 1, 1};
    for (int i = 0; i < kTurns; ++i) {
      float* const data = i % 3 == 0 ? elsewhere.data() : i % 3 == 1 ? shared : small.data();
      const int64_t count = i % 3 == 2 ? 10 : kCount;
      for (int64_t k = 0; k < count; ++k) data[k] = static_cast<float>(i * 100 + m);
      const Batch batch = BatchOf(task, {{data, data, count, {}}});
      const auto work = world.world().communicator(m).Start(batch);
      world.world().Drive(m, work.get(), i % 5 * 10);
      for (int64_t k = 0; k < count; ++k)
        ASSERT_EQ(data[k], static_cast<float>(i * 100 + GetParam() - 1)) << i;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Members, ShmInPlace,
                         ::testing::ValuesIn(testing::InTier<int>({2, 3}, {4, 5, 8})));

Task OneTensor() {
  Task task;
  task.reduce = {DType::kFloat32, ReduceOp::kSum, 1, 1, 1};
  return task;
}

TEST(ShmInPlaceTrust, an_offset_outside_a_members_segment_ends_the_job_and_touches_nothing) {
  for (const int64_t offset :
       {static_cast<int64_t>(kRoom), static_cast<int64_t>(kRoom) - 4, INT64_MAX, INT64_MAX / 2}) {
    InPlaceWorld world(2);
    const int64_t count = 10'000;
    char* const mine = world.Allocate(0, count * sizeof(float));
    memset(mine, 0, count * sizeof(float));
    const Batch batch = BatchOf(OneTensor(), {{mine, mine, count, {}}});
    const auto work = world.world().communicator(0).Start(batch);
    EXPECT_EQ(work->Advance(), Progress::kSome);
    EXPECT_EQ(work->Advance(), Progress::kNone);
    shm::Region& hostile = world.world().region(1);
    memcpy(hostile.Slot(1, 0), &offset, sizeof(offset));
    hostile.Post(shm::Flag::kIn, 1);
    EXPECT_EQ(work->Advance(), Progress::kFailed);
    EXPECT_TRUE(FailsWith(work->status(), StatusCode::kInternal, "local rank 1"));
    EXPECT_EQ(world.Passes(0), 0u);
  }
}

// The other member has stopped in the middle, and goes on when this one's program has its tensor
// back.
TEST(ShmInPlaceTrust, a_pass_that_is_given_up_leaves_private_memory_behind) {
  InPlaceWorld world(2);
  const int64_t count = 10'000;
  char* const mine = world.Allocate(0, count * sizeof(float));
  char* const theirs = world.Allocate(1, count * sizeof(float));
  memset(mine, 0, count * sizeof(float));
  memset(theirs, 0, count * sizeof(float));
  pool::Peers stopped(2, 1, &world.segment(1));
  ASSERT_TRUE(stopped.Map(0, world.segment(0).fd()).ok());
  char* const seen = stopped.At(0, mine - world.segment(0).base(), 4);
  const Batch batch = BatchOf(OneTensor(), {{mine, mine, count, {}}});
  const Batch its_batch = BatchOf(OneTensor(), {{theirs, theirs, count, {}}});
  {
    const auto work = world.world().communicator(0).Start(batch);
    const auto its_work = world.world().communicator(1).Start(its_batch);
    its_work->Advance();  // says where its tensor is, and stops
    while (work->Advance() != Progress::kNone) {
    }
    seen[0] = 1;
    EXPECT_EQ(mine[0], 1);
  }
  EXPECT_TRUE(world.segment(0).retired());
  seen[0] = 2;
  EXPECT_EQ(mine[0], 1);
}

TEST(ShmInPlaceTrust, a_pass_that_has_ended_leaves_the_segment_as_it_is) {
  InPlaceWorld world(2);
  world.world().Run([&](int m) {
    const int64_t count = 10'000;
    char* const mine = world.Allocate(m, count * sizeof(float));
    const Batch batch = BatchOf(OneTensor(), {{mine, mine, count, {}}});
    const auto work = world.world().communicator(m).Start(batch);
    world.world().Drive(m, work.get(), 10);
  });
  EXPECT_FALSE(world.segment(0).retired());
  EXPECT_FALSE(world.segment(1).retired());
}

TEST(ShmInPlaceTrust, a_fork_does_not_wait_for_tensors_that_lie_elsewhere) {
  const testing::Watchdog watchdog(60);
  InPlaceWorld world(2);
  std::vector<float> elsewhere(10'000);
  const Batch batch = BatchOf(OneTensor(), {{elsewhere.data(), elsewhere.data(), 10'000, {}}});
  const auto work = world.world().communicator(0).Start(batch);
  EXPECT_EQ(work->Advance(), Progress::kSome);  // has said where its tensor lies
  world.segment(0).BeforeFork(3600 * kSecond);
  world.segment(0).AfterFork();
}

TEST(ShmInPlaceTrust, a_member_that_could_not_map_the_others_has_all_tensors_copied) {
  InPlaceWorld world(2);
  world.peers(1).GiveUp();
  Task task = OneTensor();
  task.counts = {20'000};
  task.where = {Where::kShared};
  Check(&world, task, 1);
  EXPECT_EQ(world.Passes(0) + world.Passes(1), 0u);
}

TEST(ShmInPlaceTrust, more_tensors_than_a_slot_has_room_for_are_copied) {
  InPlaceWorld world(2, 4096);
  Task task = OneTensor();
  task.counts.assign(513, 20);
  task.where.assign(513, Where::kShared);
  world.world().Run([&](int m) {
    auto* const shared = reinterpret_cast<float*>(world.Allocate(m, 513 * 80));
    std::vector<Piece> pieces;
    for (int64_t i = 0; i < 513; ++i) pieces.push_back({shared + i * 20, shared + i * 20, 20, {}});
    for (int i = 0; i < 513 * 20; ++i) shared[i] = static_cast<float>(i % 1000);
    const Batch batch = BatchOf(task, pieces);
    const auto work = world.world().communicator(m).Start(batch);
    world.world().Drive(m, work.get(), 10);
    for (int i = 0; i < 513 * 20; ++i) ASSERT_EQ(shared[i], static_cast<float>(2 * (i % 1000)));
  });
  EXPECT_EQ(world.Passes(0), 0u);
}

}  // namespace
}  // namespace hvdlite::comm::shm_testing
