// What becomes of a batch on a GPU, without any: ways, sizes, addresses.
#include <gtest/gtest.h>

#include <string>

#include "comm/nccl/planner.h"
#include "testing/says.h"

namespace hvdlite::comm::nccl {
namespace {

char g_memory[64];
void* const kHere = g_memory;

Batch AllreduceOf(std::vector<int64_t> counts, DType dtype = DType::kFloat32) {
  Batch batch;
  batch.kind = OpKind::kAllreduce;
  batch.dtype = dtype;
  batch.reduce.dtype = dtype;
  batch.reduce.op = ReduceOp::kSum;
  for (int64_t count : counts) {
    Piece piece;
    piece.input = piece.output = kHere;
    piece.count = count;
    batch.pieces.push_back(piece);
  }
  return batch;
}

Batch PartsOf(OpKind kind, std::vector<std::vector<int64_t>> pieces,
              DType dtype = DType::kFloat32) {
  Batch batch = AllreduceOf(std::vector<int64_t>(pieces.size(), 0), dtype);
  batch.kind = kind;
  for (size_t p = 0; p < pieces.size(); ++p) batch.pieces[p].counts = pieces[p];
  return batch;
}

LayoutKind WayOf(const Context& context, const Batch& batch) {
  return Planner(context, batch).way();
}
size_t BytesOf(const Context& context, const Batch& batch) {
  return Planner(context, batch).BufferBytes();
}
Plan PlanOf(const Context& context, const Batch& batch, char* buffer = nullptr) {
  return Planner(context, batch).Make(buffer);
}
// Of a batch that goes out in one.
std::vector<Call> CallsOf(const Context& context, const Batch& batch) {
  const Plan plan = PlanOf(context, batch);
  EXPECT_EQ(plan.rounds.size(), 1u);
  EXPECT_EQ(plan.rounds[0].among, Among::kAll);
  return plan.rounds[0].calls;
}

bool CanDo(const Batch& batch, bool kernels = true) {
  std::string why;
  const bool can = Can({0, 2, kernels}, batch, &why);
  EXPECT_EQ(can, why.empty()) << why;
  return can;
}

TEST(NcclPlan, WhatNcclCannotDoIsRefused) {
  for (int d = 0; d < kDTypeCount; ++d) {
    const auto dtype = static_cast<DType>(d);
    const bool missing = dtype == DType::kInt16 || dtype == DType::kUInt16;
    EXPECT_EQ(CanDo(AllreduceOf({3}, dtype)), !missing);
    EXPECT_EQ(CanDo(PartsOf(OpKind::kReducescatter, {{1, 2}}, dtype)), !missing);
    EXPECT_TRUE(CanDo(PartsOf(OpKind::kAllgather, {{1, 2}}, dtype)));
    EXPECT_TRUE(CanDo(PartsOf(OpKind::kAlltoall, {{1, 2, 3, 4}}, dtype)));
  }
  Batch batch = AllreduceOf({3});
  batch.adasum = true;
  EXPECT_TRUE(CanDo(batch));
  EXPECT_FALSE(CanDo(batch, false));
  EXPECT_FALSE(CanDo(Batch{}));
}

TEST(NcclPlan, WithoutKernelsNothingIsScaledButAnAverageOfFloats) {
  Batch batch = AllreduceOf({3});
  EXPECT_TRUE(CanDo(batch, false));
  EXPECT_FALSE(CanDo(AllreduceOf({3}, DType::kBool), false));
  batch.reduce.op = ReduceOp::kAverage;
  batch.reduce.divisor = 2;
  EXPECT_TRUE(CanDo(batch, false));
  batch.reduce.divisor = 3;  // a rank has joined, say
  EXPECT_FALSE(CanDo(batch, false));
  batch.reduce.divisor = 1;
  batch.reduce.prescale = 0.5;
  EXPECT_FALSE(CanDo(batch, false));
  EXPECT_TRUE(CanDo(batch, true));
  batch = AllreduceOf({3}, DType::kInt32);
  batch.reduce.op = ReduceOp::kAverage;
  batch.reduce.divisor = 2;
  EXPECT_FALSE(CanDo(batch, false));
}

TEST(NcclPlan, OneTensorGoesDirectlyAndSeveralThroughABuffer) {
  const Context context{0, 2, true};
  EXPECT_EQ(WayOf(context, AllreduceOf({})), LayoutKind::kNothing);
  EXPECT_EQ(WayOf(context, AllreduceOf({0, 0})), LayoutKind::kNothing);
  EXPECT_EQ(WayOf(context, AllreduceOf({0, 7})), LayoutKind::kDirect);
  EXPECT_EQ(WayOf(context, AllreduceOf({7, 7})), LayoutKind::kPacked);
  EXPECT_EQ(WayOf({0, 2, false}, AllreduceOf({7, 7})), LayoutKind::kDirect);
  EXPECT_EQ(WayOf(context, PartsOf(OpKind::kAlltoall, {{1, 2, 3, 4}, {1, 2, 3, 4}})),
            LayoutKind::kDirect);
  EXPECT_EQ(BytesOf(context, AllreduceOf({0, 7})), 0u);
  EXPECT_EQ(BytesOf(context, AllreduceOf({7, 3, 0, 4})), 32u + 16 + 16);  // 28, 12 and 16 bytes
  EXPECT_TRUE(Says(ExplainLayout(context, AllreduceOf({7, 7})),
                   "through one buffer, 2 tensors among 2 members"));
}

TEST(NcclPlan, PartsArePaddedWhereThatIsCheap) {
  const Context context{0, 2, true};
  for (OpKind kind : {OpKind::kAllgather, OpKind::kReducescatter}) {
    EXPECT_EQ(WayOf(context, PartsOf(kind, {{8, 8}})), LayoutKind::kDirect);
    EXPECT_EQ(WayOf(context, PartsOf(kind, {{1, 9}})), LayoutKind::kDirect);
    EXPECT_EQ(WayOf(context, PartsOf(kind, {{8, 8}, {0, 9}})), LayoutKind::kPadded);
    EXPECT_EQ(WayOf(context, PartsOf(kind, {{1 << 20, 1 << 20}, {9, 0}})), LayoutKind::kPadded);
    EXPECT_EQ(WayOf(context, PartsOf(kind, {{1 << 20, 10}, {9, 0}})), LayoutKind::kPacked);
    EXPECT_EQ(BytesOf(context, PartsOf(kind, {{1 << 20, 4}, {4, 0}})), (4u << 20) + 32);
  }
}

TEST(NcclPlan, OneUnevenGatherIsABroadcastFromEachMemberThatHasAnything) {
  const std::vector<Call> calls = CallsOf({1, 3, true}, PartsOf(OpKind::kAllgather, {{2, 0, 5}}));
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[1].what, Call::What::kBroadcast);
  EXPECT_EQ(calls[1].peer, 2);
  EXPECT_EQ(calls[1].count, 20u);
  EXPECT_EQ(calls[1].to, g_memory + 8);
}

TEST(NcclPlan, NcclAveragesAndTheKernelOnlyScales) {
  Batch batch = AllreduceOf({7});
  batch.reduce.op = ReduceOp::kAverage;
  batch.reduce.divisor = 4;
  Plan plan = PlanOf({0, 4, true}, batch);
  EXPECT_EQ(plan.rounds[0].calls[0].op, kAvg);
  EXPECT_TRUE(plan.before.empty() && plan.after.empty());
  batch.reduce.postscale = 3;
  plan = PlanOf({0, 4, true}, batch);
  EXPECT_EQ(plan.scale_after.first, 1);
  EXPECT_EQ(plan.scale_after.second, 3);
  EXPECT_EQ(plan.after.size(), 1u);
  plan = PlanOf({0, 3, true}, batch);  // 3 members, but divided by 4
  EXPECT_EQ(plan.rounds[0].calls[0].op, kSum);
  EXPECT_EQ(plan.scale_after.first, 4);
}

TEST(NcclPlan, NcclAveragesSixteenBitsOnlyWhereTheReciprocalIsExact) {
  for (DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    Batch batch = AllreduceOf({7}, dtype);
    batch.reduce.op = ReduceOp::kAverage;
    batch.reduce.divisor = 3;
    EXPECT_EQ(CallsOf({0, 3, true}, batch)[0].op, kSum);
    batch.reduce.divisor = 4;
    EXPECT_EQ(CallsOf({0, 4, true}, batch)[0].op, kAvg);
  }
}

TEST(NcclPlan, CountsMayBeOfAnySize) {
  const int64_t many = (int64_t{1} << 33) + 5;
  const Context context{1, 2, true};
  EXPECT_EQ(CallsOf(context, AllreduceOf({many}, DType::kInt8))[0].count,
            static_cast<size_t>(many));
  EXPECT_EQ(BytesOf(context, AllreduceOf({many, 1}, DType::kFloat64)),
            static_cast<size_t>(many) * 8 + 8 + 16);
  Batch batch = PartsOf(OpKind::kAlltoall, {{1, many, many, 3}}, DType::kFloat64);
  const std::vector<Call> calls = CallsOf(context, batch);
  ASSERT_EQ(calls.size(), 4u);
  EXPECT_EQ(calls[0].count, static_cast<size_t>(many) * 8);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(calls[2].from) - reinterpret_cast<uintptr_t>(kHere),
            static_cast<uintptr_t>(many) * 8);
}

}  // namespace
}  // namespace hvdlite::comm::nccl
