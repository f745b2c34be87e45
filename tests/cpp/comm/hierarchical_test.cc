// Several members on each of several hosts (hierarchical_world.h).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/half.h"
#include "hierarchical_world.h"
#include "net_case.h"
#include "testing/says.h"

namespace hvdlite::comm::net_testing {
namespace {

struct Hosts {
  std::vector<int> host_of;
};

class Hierarchical : public ::testing::TestWithParam<Hosts> {};

INSTANTIATE_TEST_SUITE_P(On, Hierarchical,
                         ::testing::Values(Hosts{{0, 0, 1, 1}}, Hosts{{0, 1, 0, 1}},
                                           Hosts{{0, 0, 1}}, Hosts{{0, 0, 0, 1, 2, 2}},
                                           Hosts{{0, 0, 1, 1, 2, 2, 3, 3}}),
                         [](const auto& hosts) {
                           std::string name;
                           for (int host : hosts.param.host_of)
                             name += static_cast<char>('a' + host);
                           return name;
                         });

TEST_P(Hierarchical, EveryKindDtypeAndShapeMatchesTheReference) {
  HierarchicalWorld world(GetParam().host_of);
  RunCases(&world, EveryKindDtypeAndShape(world.size()));
  EXPECT_GT(world.carrier_counts().By(Carrier::kHierarchical, OpKind::kAllreduce), 0u);
  EXPECT_GT(world.carrier_counts().By(Carrier::kHierarchical, OpKind::kBroadcast), 0u);
}

// Sums of random numbers whose last bits depend on the order.
using Tensors = std::vector<std::vector<Bytes>>;  // [member][tensor]

Tensors RandomTensors(DType dtype, int members, const std::vector<int64_t>& sizes) {
  std::mt19937 random(21);
  std::normal_distribution<double> normal;
  Tensors tensors(static_cast<size_t>(members));
  for (auto& mine : tensors) {
    for (int64_t size : sizes) {
      mine.emplace_back(static_cast<size_t>(size) * SizeOf(dtype));
      for (int64_t i = 0; i < size; ++i) {
        Put(dtype, normal(random), mine.back().data() + static_cast<size_t>(i) * SizeOf(dtype));
      }
    }
  }
  return tensors;
}

Tensors Allreduced(HierarchicalWorld* world, DType dtype, Tensors tensors,
                   const std::vector<std::vector<size_t>>& batches,
                   kernels::ReduceSpec reduce = {}) {
  reduce.dtype = dtype;
  const auto statuses = world->Run([&](int member, Communicator* communicator) {
    auto& mine = tensors[static_cast<size_t>(member)];
    for (const std::vector<size_t>& together : batches) {
      Batch batch;
      batch.kind = OpKind::kAllreduce;
      batch.dtype = dtype;
      batch.reduce = reduce;
      for (size_t t : together) {
        batch.pieces.push_back({mine[t].data(),
                                mine[t].data(),
                                static_cast<int64_t>(mine[t].size() / SizeOf(dtype)),
                                {}});
      }
      auto work = communicator->Start(batch);
      Status status = Drive(communicator, work.get());
      if (!status.ok()) return status;
    }
    return Status::Ok();
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
  return tensors;
}

TEST_P(Hierarchical, TheBitsOfASumDoNotDependOnWhatElseIsInTheBatch) {
  const std::vector<int64_t> sizes = {1, 1000, 7, 90000, 20001, 3};
  HierarchicalWorld world(GetParam().host_of, 64 << 10);
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    const Tensors tensors = RandomTensors(dtype, world.size(), sizes);
    const Tensors alone = Allreduced(&world, dtype, tensors, {{0}, {1}, {2}, {3}, {4}, {5}});
    EXPECT_EQ(Allreduced(&world, dtype, tensors, {{0, 1, 2, 3, 4, 5}}), alone) << Name(dtype);
    EXPECT_EQ(Allreduced(&world, dtype, tensors, {{5, 3}, {4, 0, 1}, {2}}), alone) << Name(dtype);
    for (const auto& mine : alone) EXPECT_EQ(mine, alone[0]) << Name(dtype);
  }
}

// As within one host: whatever fits float32 on the way and 16 bits at the end is right.
TEST_P(Hierarchical, SixteenBitFloatsAreRoundedOnceAtTheEnd) {
  HierarchicalWorld world(GetParam().host_of, 64 << 10);
  const auto members = static_cast<size_t>(world.size());
  for (int64_t count : {int64_t{5}, int64_t{150000}}) {
    const auto reduced = [&](DType dtype, const std::vector<double>& values,
                             kernels::ReduceSpec reduce) {
      Tensors tensors(members);
      for (size_t m = 0; m < members; ++m) {
        tensors[m].emplace_back(static_cast<size_t>(count) * 2);
        for (int64_t i = 0; i < count; ++i) {
          Put(dtype, values[m % values.size()], tensors[m][0].data() + static_cast<size_t>(i) * 2);
        }
      }
      const Bytes result = Allreduced(&world, dtype, tensors, {{0}}, reduce)[0][0];
      uint16_t bits = 0;
      std::memcpy(&bits, result.data() + result.size() - 2, 2);
      return dtype == DType::kFloat16 ? HalfToFloat(bits) : BFloat16ToFloat(bits);
    };
    kernels::ReduceSpec average;
    average.op = ReduceOp::kAverage;
    average.divisor = static_cast<double>(members);
    EXPECT_EQ(reduced(DType::kFloat16, {40000}, average), 40000);
    kernels::ReduceSpec scaled;
    scaled.postscale = 1.0 / 16;
    EXPECT_EQ(reduced(DType::kFloat16, {60000}, scaled),
              HalfToFloat(FloatToHalf(60000.0f * members / 16)));
    std::vector<double> small(members, 1);
    small[0] = 256;
    const float sum = static_cast<float>(255 + members);
    EXPECT_EQ(reduced(DType::kBFloat16, small, {}), BFloat16ToFloat(FloatToBFloat16(sum)));
  }
}

TEST_P(Hierarchical, SaysHowManyRailsThereAre) {
  HierarchicalWorld world(GetParam().host_of);
  const int rails = world.topology().rails();
  Batch batch;
  batch.kind = OpKind::kAllreduce;
  std::string said;
  world.Run([&](int member, Communicator* communicator) {
    if (member == 0) said = communicator->Explain(batch);
    return Status::Ok();
  });
  const std::string expected =
      rails == 1 ? "1 allreduce between" : std::to_string(rails) + " parallel allreduces between";
  EXPECT_TRUE(Says(said, expected));
}

}  // namespace
}  // namespace hvdlite::comm::net_testing
