// Every collective over NCCL against the plain reference: tensors that a stream of the user's makes
// and looks at, batches that follow one another on the device, an NCCL that is late, and goes on in
// the background, as it may.
#include <gtest/gtest.h>

#include <vector>

#include "nccl_world.h"
#include "testing/tier.h"

namespace hvdlite::comm::net_testing {
namespace {

const std::vector<OpKind> kKindsOfNccl = {OpKind::kAllreduce, OpKind::kBroadcast,
                                          OpKind::kAllgather, OpKind::kReducescatter,
                                          OpKind::kAlltoall};

std::vector<std::vector<int64_t>> ShapesForNccl() {
  return {{}, {0}, {1}, {13}, {1000}, {60007}, {1, 0, 3, 0}, {0, 0, 5}, {7, 1, 300, 0, 2, 4099, 1}};
}

class NcclProperty : public ::testing::TestWithParam<int> {
 protected:
  static std::vector<Case> KindsTypesAndShapes(int members) {
    return EveryKindDtypeAndShape(members, kKindsOfNccl, ShapesForNccl());
  }
};

TEST_P(NcclProperty, EveryKindDtypeAndShapeMatchesTheReference) {
  if (!HasKernels()) GTEST_SKIP() << kNoKernels;
  NcclWorld world(GetParam());
  const std::vector<Case> cases = KindsTypesAndShapes(GetParam());
  // Two reductions of two types are not for NCCL.
  EXPECT_EQ(RunGpuCases(&world, cases), cases.size() - 2 * 2 * ShapesForNccl().size());
}

TEST_P(NcclProperty, WithoutKernelsOfOurOwnMostMatchesTheReferenceToo) {
  NcclWorld world(GetParam(), /*kernels=*/false);
  const std::vector<Case> cases = KindsTypesAndShapes(GetParam());
  // Nor is bool.
  EXPECT_EQ(RunGpuCases(&world, cases), cases.size() - 2 * 3 * ShapesForNccl().size());
}

TEST_P(NcclProperty, EveryOpAndScaleMatchesTheReference) {
  if (!HasKernels()) GTEST_SKIP() << kNoKernels;
  const int members = GetParam();
  NcclWorld world(members);
  const std::vector<std::vector<int64_t>> shapes = {{0}, {13}, {6007}, {7, 1, 300, 0, 2}};
  const std::vector<ReduceOp> ops = {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin,
                                     ReduceOp::kMax, ReduceOp::kProduct};
  std::vector<Case> cases = EveryOpDtypeAndShape(members, ops, shapes, 1000);
  const std::vector<Case> scatters =
      EveryOpDtypeAndShape(members, ops, shapes, cases.back().seed, OpKind::kReducescatter);
  cases.insert(cases.end(), scatters.begin(), scatters.end());
  for (Case& c : cases) {
    // By a power of two: of others NCCL's result is not the reference's to the last bit.
    if (c.op == ReduceOp::kAverage && members != 3) c.divisor = members;
  }
  EXPECT_GT(RunGpuCases(&world, cases), cases.size() / 2);
}

TEST_P(NcclProperty, HoweverLateNcclIs) {
  const int members = GetParam();
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    NcclWorld world(members);
    BeLate(seed);
    const std::vector<Case> cases =
        KindsAndShapesInTurn(members, seed, kKindsOfNccl, ShapesForNccl());
    EXPECT_EQ(RunGpuCases(&world, cases), cases.size());
  }
}

// One member has much more than the others: to make all parts as long as its would be the larger
// part of the work.
TEST(NcclParts, ThatDifferByMuchAreNotPadded) {
  if (!HasKernels()) GTEST_SKIP() << kNoKernels;
  NcclWorld world(3);
  std::vector<Case> cases;
  for (OpKind kind : {OpKind::kAllgather, OpKind::kReducescatter}) {
    for (uint32_t seed = 1; seed <= 20; ++seed) {
      Case c;
      c.kind = kind;
      c.members = 3;
      c.sizes = {200000, 5, 0, 7};
      c.seed = seed;
      const nccl::Context context{0, 3, true};
      if (nccl::Planner(context, Trial(c).batch(0)).way() == nccl::LayoutKind::kPacked)
        cases.push_back(c);
    }
  }
  ASSERT_GT(cases.size(), 10u);
  EXPECT_EQ(RunGpuCases(&world, cases), cases.size());
  EXPECT_GT(fake_nccl_calls("ncclBroadcast"), 0);
  EXPECT_GT(fake_nccl_calls("ncclReduce"), 0);
  EXPECT_EQ(fake_nccl_calls("ncclAllGather") + fake_nccl_calls("ncclReduceScatter"), 0);
}

INSTANTIATE_TEST_SUITE_P(Members, NcclProperty,
                         ::testing::ValuesIn(testing::InTier<int>({2, 3}, {1, 4})),
                         [](const auto& members) { return std::to_string(members.param); });

}  // namespace
}  // namespace hvdlite::comm::net_testing
