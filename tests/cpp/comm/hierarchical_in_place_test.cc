// Several hosts on which tensors lie in shared memory or not: the bits are those of the way by
// copies, whatever lies where.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "hierarchical_world.h"
#include "testing/tier.h"

namespace hvdlite::comm::net_testing {
namespace {

constexpr size_t kRoom = size_t{64} << 20;

struct Task {
  DType dtype = DType::kFloat32;
  kernels::ReduceSpec reduce;
  std::vector<int64_t> counts;
};

// [member][tensor]
using Values = std::vector<std::vector<Bytes>>;
// Whether the member's tensor lies in its segment.
using IsShared = std::function<bool(int member, size_t tensor)>;

Values RandomValues(const Task& task, int members, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> real(-3, 3);
  const size_t size = SizeOf(task.dtype);
  Values values(static_cast<size_t>(members));
  for (auto& mine : values) {
    for (int64_t count : task.counts) {
      mine.emplace_back(static_cast<size_t>(count) * size);
      for (int64_t i = 0; i < count; ++i) {
        const double value = IsFloating(task.dtype) ? real(random) : static_cast<double>(i % 7);
        Put(task.dtype, value, mine.back().data() + static_cast<size_t>(i) * size);
      }
    }
  }
  return values;
}

// The results. Without `is_shared` no tensor lies in a segment.
Values Allreduced(HierarchicalWorld* world, const Task& task, Values values,
                  const IsShared& is_shared) {
  const auto statuses = world->Run([&](int m, Communicator* communicator) {
    Batch batch;
    batch.kind = OpKind::kAllreduce;
    batch.dtype = task.dtype;
    batch.reduce = task.reduce;
    std::vector<char*> blocks;
    for (size_t t = 0; t < task.counts.size(); ++t) {
      Bytes& mine = values[static_cast<size_t>(m)][t];
      void* memory = mine.data();
      if (is_shared && is_shared(m, t)) {
        const size_t bytes = std::max(mine.size(), pool::kSmallestBlock);
        blocks.push_back(static_cast<char*>(world->segment(m).Allocate(bytes)));
        memory = blocks.back();
        std::copy(mine.begin(), mine.end(), blocks.back());
      }
      batch.pieces.push_back({memory, memory, task.counts[t], {}});
    }
    const auto work = communicator->Start(batch);
    const Status status = Drive(communicator, work.get());
    for (size_t t = 0; t < task.counts.size(); ++t) {
      Bytes& mine = values[static_cast<size_t>(m)][t];
      const auto* result = static_cast<const char*>(batch.pieces[t].output);
      if (result != static_cast<const void*>(mine.data()))
        std::copy(result, result + mine.size(), mine.begin());
    }
    for (char* block : blocks) world->segment(m).Give(block);
    return status;
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
  return values;
}

class HierarchicalInPlace : public ::testing::TestWithParam<std::vector<int>> {
 protected:
  void SetUp() override { world_.ShareMemory(kRoom); }
  uint64_t Passes() const {
    return world_.carrier_counts().By(Carrier::kShmInPlace, OpKind::kAllreduce);
  }
  void Check(const Task& task, uint32_t seed, const IsShared& is_shared) {
    const Values values = RandomValues(task, world_.size(), seed);
    const Values expected = Allreduced(&by_copies_, task, values, nullptr);
    const Values found = Allreduced(&world_, task, values, is_shared);
    EXPECT_EQ(found, expected) << Name(task.dtype) << " " << Name(task.reduce.op) << " seed "
                               << seed;
  }

  HierarchicalWorld by_copies_{GetParam(), 64 << 10};
  HierarchicalWorld world_{GetParam(), 64 << 10};
};

INSTANTIATE_TEST_SUITE_P(On, HierarchicalInPlace,
                         ::testing::ValuesIn(hvdlite::testing::InTier<std::vector<int>>(
                             {{0, 0, 1, 1}, {0, 0, 0, 1, 2, 2}},
                             {{0, 1, 0, 1}, {0, 0, 1}, {0, 0, 0, 1, 1, 1}})),
                         [](const auto& hosts) {
                           std::string name;
                           for (int host : hosts.param) name += static_cast<char>('a' + host);
                           return name;
                         });

TEST_P(HierarchicalInPlace, gives_the_bits_of_the_way_by_copies) {
  uint32_t seed = 0;
  for (int dtype = 0; dtype < kDTypeCount; ++dtype) {
    for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
      Task task;
      task.dtype = static_cast<DType>(dtype);
      task.reduce = {task.dtype, op, 1, 1, 1};
      if (op == ReduceOp::kSum && dtype % 2 == 0)
        task.reduce = {task.dtype, op, 0.3, 1.7, static_cast<double>(world_.size())};
      for (const std::vector<int64_t>& counts :
           {std::vector<int64_t>{40'003}, std::vector<int64_t>{4099, 1, 0, 20'001, 17}}) {
        task.counts = counts;
        Check(task, ++seed, [](int, size_t) { return true; });
      }
    }
  }
  EXPECT_EQ(Passes(), seed * static_cast<uint64_t>(world_.size()));
}

TEST_P(HierarchicalInPlace, each_tensor_may_lie_elsewhere_on_any_member_or_host) {
  for (uint32_t seed = 0; seed < 24; ++seed) {
    Task task;
    task.dtype = seed % 3 == 0 ? DType::kBFloat16 : DType::kFloat32;
    task.reduce = {task.dtype, ReduceOp::kSum, 1, 1, 3};
    std::mt19937 random(seed);
    for (uint32_t t = 0; t <= seed % 5; ++t)
      task.counts.push_back(100 + static_cast<int64_t>(random() % 70'000));
    std::vector<uint32_t> hidden;  // of each tensor: the members outside
    for (size_t t = 0; t < task.counts.size(); ++t) hidden.push_back(random() & random());
    Check(task, seed, [&](int m, size_t t) {
      if (seed % 4 == 1) return world_.topology().host_of[static_cast<size_t>(m)] == 0;
      return (hidden[t] >> m & 1) == 0;
    });
  }
  EXPECT_GT(Passes(), 0u);
}

TEST_P(HierarchicalInPlace, leaves_the_segments_as_they_are) {
  Task task;
  task.counts = {30'000};
  task.reduce.dtype = task.dtype;
  Check(task, 1, [](int, size_t) { return true; });
  for (int m = 0; m < world_.size(); ++m) {
    EXPECT_FALSE(world_.segment(m).retired());
    world_.segment(m).BeforeFork(0);  // no tensor is lent
    world_.segment(m).AfterFork();
  }
}

// The other member of the host has said where its tensor is, and stops.
TEST(HierarchicalInPlaceTrust, what_is_given_up_leaves_private_memory_behind) {
  HierarchicalWorld world({0, 0, 1, 1});
  world.ShareMemory(kRoom);
  Batch batch[2];
  std::unique_ptr<Work> work[2];
  for (int m : {0, 1}) {
    void* const tensor = world.segment(m).Allocate(80'000);
    batch[m].kind = OpKind::kAllreduce;
    batch[m].dtype = batch[m].reduce.dtype = DType::kFloat32;
    batch[m].pieces.push_back({tensor, tensor, 20'000, {}});
    work[m] = world.member(m)->Start(batch[m]);
  }
  while (work[1]->Advance() != Progress::kNone) {
  }
  while (work[0]->Advance() != Progress::kNone) {
  }
  work[0].reset();
  EXPECT_TRUE(world.segment(0).retired());
  work[1].reset();
}

}  // namespace
}  // namespace hvdlite::comm::net_testing
