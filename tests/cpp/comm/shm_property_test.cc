// Every shared-memory algorithm against the plain reference: kinds, dtypes, sizes, members, pieces,
// roots, uneven counts, with chunks so small that every slot is used many times.
#include <algorithm>
#include <cmath>

#include "comm/shm_world.h"
#include "testing/tier.h"

namespace hvdlite::comm::shm_testing {
namespace {

using net_testing::Case;

class ShmProperty : public ::testing::TestWithParam<int> {
 protected:
  // With many members on few processors everything takes long: then fewer cases, for what only many
  // members show.
  bool many() const { return GetParam() > 5; }
};

TEST_P(ShmProperty, every_kind_dtype_and_shape) {
  std::vector<Case> cases = net_testing::EveryKindDtypeAndShape(
      GetParam(), {OpKind::kAllreduce, OpKind::kBroadcast, OpKind::kAllgather,
                   OpKind::kReducescatter, OpKind::kBarrier});
  // An alltoall is never fused.
  for (const Case& c : net_testing::EveryKindDtypeAndShape(GetParam(), {OpKind::kAlltoall},
                                                           {{0}, {1}, {3}, {1000}, {6007}}))
    cases.push_back(c);
  if (many()) {
    cases.erase(std::remove_if(cases.begin(), cases.end(),
                               [](const Case& c) { return static_cast<int>(c.dtype) % 6 != 0; }),
                cases.end());
  }
  for (const size_t chunk : {size_t{4096}, size_t{65536}}) {
    for (const size_t small : {size_t{0}, size_t{4096}}) {
      if (many() && (chunk > 4096) != (small == 0)) continue;
      ShmWorld(GetParam(), chunk, small).RunCases(cases);
    }
  }
}

TEST_P(ShmProperty, every_reduction_and_scale) {
  if (many()) GTEST_SKIP() << "seen with fewer members";
  const std::vector<Case> cases =
      net_testing::EveryReductionAndScale(GetParam(), {OpKind::kAllreduce, OpKind::kReducescatter});
  for (const size_t small : {size_t{0}, size_t{4096}})
    ShmWorld(GetParam(), 4096, small).RunCases(cases);
}

TEST_P(ShmProperty, mixed_operations_follow_one_another_without_a_barrier) {
  ShmWorld(GetParam(), 4096, 2048)
      .RunCases(net_testing::Mixed(GetParam(), many() ? 100 : 1000, 2000));
}

TEST_P(ShmProperty, exchange_and_shares_give_the_same_bits) {
  const int n = GetParam();
  std::vector<std::vector<float>> inputs;
  std::mt19937 random(3);
  std::uniform_real_distribution<float> values(-1, 1);
  for (int m = 0; m < n; ++m) {
    inputs.emplace_back(1000);
    for (float& v : inputs.back()) v = values(random);
  }
  std::vector<float> first;
  for (const size_t small : {size_t{0}, size_t{1} << 20}) {
    for (const size_t chunk : {size_t{4096}, size_t{8192}}) {
      ShmWorld world(n, chunk, small);
      std::vector<std::vector<float>> outputs(static_cast<size_t>(n), std::vector<float>(1000));
      world.Run([&](int m) {
        Batch batch;
        batch.kind = OpKind::kAllreduce;
        batch.dtype = DType::kFloat32;
        batch.reduce = {DType::kFloat32, ReduceOp::kSum, 1, 1, static_cast<double>(n)};
        batch.pieces.push_back({inputs[static_cast<size_t>(m)].data(),
                                outputs[static_cast<size_t>(m)].data(),
                                1000,
                                {}});
        const auto work = world.communicator(m).Start(batch);
        world.Drive(m, work.get(), 10);
      });
      if (first.empty()) first = outputs[0];
      for (const auto& out : outputs) ASSERT_EQ(memcmp(out.data(), first.data(), 4000), 0);
    }
  }
}

// adasum(a, b), the plain way.
std::vector<double> Combine(const std::vector<double>& a, const std::vector<double>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  const double ca = aa < 1e-150 ? 1 : 1 - ab / (2 * aa);
  const double cb = bb < 1e-150 ? 1 : 1 - ab / (2 * bb);
  std::vector<double> out;
  for (size_t i = 0; i < a.size(); ++i) out.push_back(ca * a[i] + cb * b[i]);
  return out;
}

TEST_P(ShmProperty, adasum_is_a_tree_of_pairs_for_each_tensor_alone) {
  const int n = GetParam();
  ShmWorld world(n, 4096);
  std::mt19937 random(4);
  std::uniform_real_distribution<double> values(-1, 1);
  const std::vector<size_t> sizes = {1, 700, 0, 5000};
  std::vector<std::vector<std::vector<double>>> in(static_cast<size_t>(n)), out(in);
  for (size_t m = 0; m < in.size(); ++m) {
    for (size_t size : sizes) {
      in[m].emplace_back(size);
      for (double& v : in[m].back()) v = values(random);
      out[m].emplace_back(size);
    }
  }
  world.Run([&](int m) {
    const size_t me = static_cast<size_t>(m);
    Batch batch;
    batch.kind = OpKind::kAllreduce;
    batch.dtype = DType::kFloat64;
    batch.adasum = true;
    batch.reduce = {DType::kFloat64, ReduceOp::kSum, 2.0, 0.5, 1};
    for (size_t p = 0; p < sizes.size(); ++p) {
      batch.pieces.push_back(
          {in[me][p].data(), out[me][p].data(), static_cast<int64_t>(sizes[p]), {}});
    }
    const auto work = world.communicator(m).Start(batch);
    world.Drive(m, work.get(), 10);
  });
  size_t power = 1;
  while (power * 2 <= in.size()) power *= 2;
  for (size_t p = 0; p < sizes.size(); ++p) {
    std::vector<std::vector<double>> level;
    for (size_t m = 0; m < in.size(); ++m) {
      level.push_back(in[m][p]);
      for (double& v : level.back()) v *= 2;
    }
    for (size_t m = power; m < in.size(); ++m)
      level[m - power] = Combine(level[m - power], level[m]);
    level.resize(power);
    while (level.size() > 1) {
      std::vector<std::vector<double>> next;
      for (size_t m = 0; m < level.size(); m += 2) next.push_back(Combine(level[m], level[m + 1]));
      level = next;
    }
    for (size_t m = 0; m < in.size(); ++m) {
      ASSERT_EQ(out[m][p], out[0][p]) << "all members hold the same bits";
      for (size_t i = 0; i < sizes[p]; ++i) ASSERT_NEAR(out[m][p][i], level[0][i] * 0.5, 1e-12);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Members, ShmProperty,
                         ::testing::ValuesIn(testing::InTier<int>({2, 5}, {1, 3, 4, 17})));

}  // namespace
}  // namespace hvdlite::comm::shm_testing
