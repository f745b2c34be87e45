#include "engine/fuse/plan.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace hvdlite::engine {
namespace {

Agreed Op(OpKind kind, int64_t elements, DType dtype = DType::kFloat32) {
  Agreed r;
  r.request.kind = kind;
  r.request.dtype = dtype;
  r.request.shape = {elements};
  return r;
}

using Batches = std::vector<std::vector<size_t>>;

Batches PlanOf(const std::vector<Agreed>& ready, FuseOptions options) {
  std::vector<AgreedPtr> pointers;
  for (const Agreed& r : ready) pointers.push_back(std::make_shared<const Agreed>(r));
  return Plan(pointers, options);
}

TEST(Plan, equal_ones_travel_together_up_to_the_threshold) {
  const std::vector<Agreed> ready(5, Op(OpKind::kAllreduce, 10));  // 40 bytes each
  EXPECT_EQ(PlanOf(ready, {.threshold = 1000}), (Batches{{0, 1, 2, 3, 4}}));
  EXPECT_EQ(PlanOf(ready, {.threshold = 80}), (Batches{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(PlanOf(ready, {.threshold = 79}), (Batches{{0}, {1}, {2}, {3}, {4}}));
  EXPECT_EQ(PlanOf(ready, {.threshold = 0}), (Batches{{0}, {1}, {2}, {3}, {4}}));
  EXPECT_EQ(PlanOf({}, {}), Batches{});
}

TEST(Plan, what_does_not_match_does_not_stop_the_batch_before_it_from_growing) {
  std::vector<Agreed> ready = {Op(OpKind::kAllreduce, 1), Op(OpKind::kAllreduce, 1, DType::kInt32),
                               Op(OpKind::kBroadcast, 1), Op(OpKind::kAllreduce, 1),
                               Op(OpKind::kAllreduce, 1, DType::kInt32)};
  EXPECT_EQ(PlanOf(ready, {}), (Batches{{0, 3}, {1, 4}, {2}}));
}

TEST(Plan, whatever_tells_two_operations_apart_keeps_them_apart) {
  const std::vector<std::function<void(Request*)>> changes = {
      [](Request* r) { r->op = ReduceOp::kMax; },
      [](Request* r) { r->device = DeviceKind::kCuda; },
      [](Request* r) { r->root = 1; },
      [](Request* r) { r->prescale = 2; },
      [](Request* r) { r->postscale = 2; },
      [](Request* r) { r->dtype = DType::kInt32; },
  };
  for (const auto& change : changes) {
    std::vector<Agreed> ready(2, Op(OpKind::kAllreduce, 1));
    change(&ready[1].request);
    EXPECT_EQ(PlanOf(ready, {}), (Batches{{0}, {1}}));
  }
}

TEST(Plan, whole_tensors_travel_with_encoded_or_sparse_ones_but_not_these_with_each_other) {
  const std::function<void(Request*)> whole = [](Request*) {};
  const std::function<void(Request*)> sparse = [](Request* r) { r->taken = 3; };
  const std::function<void(Request*)> denser = [](Request* r) { r->taken = 5; };
  const std::function<void(Request*)> int8 = [](Request* r) { r->codec = {Codec::kInt8, 0}; };
  const std::function<void(Request*)> sign = [](Request* r) { r->codec = {Codec::kSign, 0}; };
  struct Case {
    std::vector<std::function<void(Request*)>> given;
    Batches batches;
  };
  for (const Case& each : std::vector<Case>{
           {{sparse, whole, denser}, {{0, 1, 2}}},
           {{whole, whole, sparse, whole}, {{0, 1, 2, 3}}},
           {{int8, whole, int8}, {{0, 1, 2}}},
           {{whole, int8, whole}, {{0, 1, 2}}},
           {{int8, sign, int8}, {{0, 2}, {1}}},
           {{int8, sparse, int8}, {{0, 2}, {1}}},
           {{whole, int8, sign}, {{0, 1}, {2}}},
           {{whole, sparse, sign}, {{0, 1}, {2}}},
       }) {
    std::vector<Agreed> ready(each.given.size(), Op(OpKind::kAllreduce, 10));
    for (size_t i = 0; i < ready.size(); ++i) each.given[i](&ready[i].request);
    EXPECT_EQ(PlanOf(ready, {}), each.batches);
  }
  // On a GPU an encoded batch has nothing else.
  std::vector<Agreed> ready(2, Op(OpKind::kAllreduce, 10));
  for (Agreed& agreed : ready) agreed.request.device = DeviceKind::kCuda;
  int8(&ready[1].request);
  EXPECT_EQ(PlanOf(ready, {}), (Batches{{0}, {1}}));
}

TEST(Plan, some_kinds_always_travel_alone) {
  for (const OpKind kind : {OpKind::kAlltoall, OpKind::kBarrier, OpKind::kJoin,
                            OpKind::kAddProcessSet, OpKind::kRemoveProcessSet}) {
    EXPECT_EQ(PlanOf({Op(kind, 0), Op(kind, 0)}, {}), (Batches{{0}, {1}})) << Name(kind);
  }
}

TEST(Plan, tensors_of_an_adasum_travel_alone_also_in_a_group) {
  std::vector<Agreed> ready(3, Op(OpKind::kAllreduce, 10));
  for (Agreed& each : ready) each.request.op = ReduceOp::kAdasum;
  EXPECT_EQ(PlanOf(ready, {}), (Batches{{0}, {1}, {2}}));
  for (Agreed& each : ready) each.request.group = 9;
  EXPECT_EQ(PlanOf(ready, {}), (Batches{{0}, {1}, {2}}));
}

TEST(Plan, a_group_stays_together_whatever_its_size) {
  std::vector<Agreed> ready(4, Op(OpKind::kAllreduce, 100));
  for (size_t i = 1; i < 4; ++i) ready[i].request.group = 9;
  EXPECT_EQ(PlanOf(ready, {.threshold = 400}), (Batches{{0}, {1, 2, 3}}));
  EXPECT_EQ(PlanOf(ready, {.threshold = 10000}), (Batches{{0, 1, 2, 3}}));
  EXPECT_EQ(PlanOf(ready, {.threshold = 10000, .groups_alone = true}), (Batches{{0}, {1, 2, 3}}));
}

TEST(Plan, an_allgather_counts_what_all_members_bring) {
  std::vector<Agreed> ready(2, Op(OpKind::kAllgather, 1));
  for (Agreed& r : ready) r.rows = {10, 10};
  EXPECT_EQ(PlanOf(ready, {.threshold = 160}), (Batches{{0, 1}}));
  EXPECT_EQ(PlanOf(ready, {.threshold = 159}), (Batches{{0}, {1}}));
}

TEST(Plan, everything_is_planned_once_and_no_batch_is_too_large) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<Agreed> ready;
    for (uint32_t i = 0; i < random() % 40; ++i) {
      ready.push_back(Op(static_cast<OpKind>(random() % 6), random() % 300,
                         random() % 2 ? DType::kInt8 : DType::kFloat64));
    }
    std::multiset<size_t> seen;
    for (const auto& batch : PlanOf(ready, {.threshold = 2000})) {
      ASSERT_FALSE(batch.empty());
      int64_t bytes = 0;
      for (size_t i : batch) {
        seen.insert(i);
        bytes += ready[i].request.shape[0] * static_cast<int64_t>(SizeOf(ready[i].request.dtype));
      }
      if (batch.size() > 1 && ready[batch[0]].request.kind != OpKind::kAllgather) {
        ASSERT_LE(bytes, 2000);
      }
    }
    ASSERT_EQ(seen.size(), ready.size());
    for (size_t i = 0; i < ready.size(); ++i) ASSERT_EQ(seen.count(i), 1u);
  }
}

}  // namespace
}  // namespace hvdlite::engine
