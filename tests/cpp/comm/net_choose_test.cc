// The table of decisions.
#include <gtest/gtest.h>

#include <algorithm>

#include "comm/choose.h"
#include "testing/says.h"

namespace hvdlite::comm {
namespace {

struct Row {
  OpKind op;
  DType dtype;
  int64_t bytes;
  int members;
  Algorithm expected;
};

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;

TEST(NetChoose, TheTable) {
  const Row rows[] = {
      {OpKind::kAllreduce, DType::kFloat32, 4, 1, Algorithm::kOneShot},
      {OpKind::kAllreduce, DType::kFloat32, 4, 2, Algorithm::kOneShot},
      {OpKind::kAllreduce, DType::kFloat32, 64 * kKiB, 2, Algorithm::kOneShot},
      {OpKind::kAllreduce, DType::kFloat32, 16 * kMiB, 2, Algorithm::kDirect},
      {OpKind::kAllreduce, DType::kFloat32, 4, 4, Algorithm::kOneShot},
      {OpKind::kAllreduce, DType::kFloat32, 256 * kKiB, 4, Algorithm::kDirect},
      {OpKind::kAllreduce, DType::kFloat32, 64 * kMiB, 4, Algorithm::kDirect},
      {OpKind::kAllreduce, DType::kFloat32, 4, 128, Algorithm::kGather},
      {OpKind::kAllreduce, DType::kFloat32, 64 * kKiB, 64, Algorithm::kDirect},
      {OpKind::kAllreduce, DType::kFloat16, 4, 128, Algorithm::kGather},
      {OpKind::kAllreduce, DType::kBFloat16, 64 * kMiB, 16, Algorithm::kDirect},
      {OpKind::kBroadcast, DType::kFloat32, 4, 8, Algorithm::kTree},
      {OpKind::kBroadcast, DType::kFloat32, 64 * kMiB, 8, Algorithm::kChain},
      {OpKind::kAllgather, DType::kFloat32, kKiB, 8, Algorithm::kPairwise},
      {OpKind::kAlltoall, DType::kFloat32, 64 * kMiB, 8, Algorithm::kPairwise},
      {OpKind::kReducescatter, DType::kFloat32, 64 * kMiB, 8, Algorithm::kDirect},
      {OpKind::kBarrier, DType::kUInt8, 0, 8, Algorithm::kDissemination},
  };
  for (const Row& row : rows) {
    const Question question{row.op, row.dtype, false, row.bytes, row.members, 1};
    const Choice choice = Choose(question, CostModel{});
    EXPECT_EQ(choice.algorithm, row.expected) << Why(question, choice);
    EXPECT_TRUE(IsLegal(question, choice.algorithm));
  }
}

TEST(NetChoose, AnAlgorithmIsFoundByItsName) {
  for (int i = 0; i < kAlgorithmCount; ++i) {
    const auto algorithm = static_cast<Algorithm>(i);
    EXPECT_EQ(AlgorithmNamed(Name(algorithm)), algorithm);
  }
  EXPECT_EQ(AlgorithmNamed("auto"), std::nullopt);
}

TEST(NetChoose, ACardSharedByManyMembersMakesTheRingGather) {
  Question question{OpKind::kAllgather, DType::kFloat32, false, 64 * kMiB, 32, 1};
  EXPECT_EQ(Choose(question, CostModel{}).algorithm, Algorithm::kPairwise);
  question.members_per_card = 8;
  EXPECT_EQ(Choose(question, CostModel{}).algorithm, Algorithm::kRing);
}

// What is fused with a tensor decides which algorithm it gets, and so may not show in its sum.
TEST(NetChoose, NoAllreduceSumsInAnotherOrderThanThatOfTheMembers) {
  const auto in_order = {Algorithm::kOneShot, Algorithm::kDirect, Algorithm::kGather};
  for (DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    for (int i = 0; i < kAlgorithmCount; ++i) {
      const auto algorithm = static_cast<Algorithm>(i);
      const bool legal = IsLegal({OpKind::kAllreduce, dtype, false, 4, 5, 2}, algorithm);
      EXPECT_EQ(legal, std::find(in_order.begin(), in_order.end(), algorithm) != in_order.end())
          << Name(algorithm);
    }
  }
}

TEST(NetChoose, AGatherHoldsNoMoreThanItsBound) {
  EXPECT_TRUE(
      IsLegal({OpKind::kAllreduce, DType::kFloat32, false, kMiB, 4, 1}, Algorithm::kGather));
  EXPECT_FALSE(
      IsLegal({OpKind::kAllreduce, DType::kFloat32, false, kMiB + 4, 4, 1}, Algorithm::kGather));
}

TEST(NetChoose, MoreBytesNeverGetFasterAndTheChoiceIsTheCheapest) {
  const CostModel model;
  for (int members : {1, 2, 3, 7, 16, 100}) {
    double before = 0;
    for (int64_t bytes = 1; bytes < 1 << 28; bytes *= 2) {
      const Question question{OpKind::kAllreduce, DType::kFloat32, false, bytes, members, 1};
      const Choice choice = Choose(question, model);
      EXPECT_GE(choice.seconds, before);
      before = choice.seconds;
      for (int i = 0; i < kAlgorithmCount; ++i) {
        const auto other = static_cast<Algorithm>(i);
        if (!IsLegal(question, other)) continue;
        EXPECT_LE(choice.seconds, PredictSeconds(question, other, model));
      }
    }
  }
}

TEST(NetChoose, SaysWhy) {
  const Question question{OpKind::kAllreduce, DType::kFloat16, false, 4 * kMiB, 16, 1};
  const std::string why = Why(question, Choose(question, CostModel{}));
  EXPECT_TRUE(Says(why, "direct: 4 MiB among 16 members"));
  EXPECT_TRUE(Says(why, "one-shot: "));
  EXPECT_TRUE(Says(why, "float16 is summed in float32 and rounded once"));
  const Question barrier{OpKind::kBarrier, DType::kUInt8, false, 0, 4, 1};
  EXPECT_TRUE(Says(Why(barrier, Choose(barrier, CostModel{})), "the only algorithm for barrier"));
}

}  // namespace
}  // namespace hvdlite::comm
