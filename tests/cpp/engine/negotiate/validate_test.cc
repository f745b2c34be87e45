// The sentences that people read when their ranks disagree. Changing one means changing it here, on
// purpose.
#include "engine/negotiate/validate.h"

#include <gtest/gtest.h>

#include "engine/list.h"
#include "engine/negotiate/ledger.h"
#include "testing/says.h"

namespace hvdlite::engine {
namespace {

Request Base(OpKind kind) {
  Request r;
  r.kind = kind;
  r.name = std::string(Name(kind)) + ".dense/bias";
  r.shape = {10, 4};
  if (kind == OpKind::kAlltoall) r.splits = {5, 5};
  return r;
}

// The verdict when the members ask for these, member i being global rank ranks[i].
std::string Verdict(const std::vector<Request>& asked, std::vector<int> ranks = {}) {
  const int n = static_cast<int>(asked.size());
  Ledger ledger(n, 10);
  for (int m = 0; m < n; ++m) {
    if (ranks.size() <= static_cast<size_t>(m)) ranks.push_back(m);
    EXPECT_TRUE(ledger.Add(m, asked[static_cast<size_t>(m)], 0));
  }
  const auto ready = ledger.TakeReady();
  EXPECT_EQ(ready.size(), 1u);
  const Status status = Validate(*ready[0], ranks);
  return status.ok() ? "ok" : status.message();
}

Request With(Request r, const std::function<void(Request*)>& change) {
  change(&r);
  return r;
}

TEST(Validate, names_the_tensor_of_a_list) {
  const auto list = [](const std::vector<Shape>& shapes) {
    Request r;
    r.name = "grouped_allreduce.g";
    r.group = 7;
    for (const Shape& shape : shapes) AddToList(shape.data(), shape.size(), &r);
    r.shape = {ElementsOf(r)};
    return r;
  };
  const Request a = list({{2}, {3, 4}, {5}});
  EXPECT_EQ(Verdict({a, a}), "ok");
  EXPECT_EQ(Verdict({a, list({{2}, {3, 4}, {6}}), a, list({{2}, {4, 3}, {5}})}),
            "allreduce 'g_2of3': ranks 0-2 sent shape [3, 4], rank 3 sent shape [4, 3]. All ranks "
            "must pass the same shape; use allgather for differing first dimensions.");
  EXPECT_EQ(Verdict({a, With(a, [](Request* r) { r->dtype = DType::kFloat16; })}),
            "allreduce 'g_1of3': rank 0 sent dtype float32, rank 1 sent dtype float16. All ranks "
            "must pass the same dtype; cast before the call.");
  EXPECT_EQ(Verdict({list({{2}, {3, 4}}), a}),
            "allreduce 'g_1of2': rank 0 put it into a group of 2, rank 1 put it into a group of 3. "
            "All ranks must group the same tensors.");
}

TEST(Validate, golden_sentences) {
  const Request a = Base(OpKind::kAllreduce);
  EXPECT_EQ(Verdict({a, a}), "ok");
  EXPECT_EQ(Verdict({a, With(a, [](Request* r) { r->shape = {12}; })}, {0, 3}),
            "allreduce 'dense/bias': rank 0 sent shape [10, 4], rank 3 sent shape [12]. All ranks "
            "must pass the same shape; "
            "use allgather for differing first dimensions.");
  EXPECT_EQ(Verdict({a, a, With(a, [](Request* r) { r->dtype = DType::kBFloat16; }), a, a},
                    {0, 1, 2, 3, 7}),
            "allreduce 'dense/bias': ranks 0, 1, 3 and 7 sent dtype float32, rank 2 sent dtype "
            "bfloat16. All ranks must pass "
            "the same dtype; cast before the call.");
  EXPECT_EQ(Verdict({With(a, [](Request* r) { r->op = ReduceOp::kAdasum; }), a}),
            "allreduce 'dense/bias': rank 0 asked for op Adasum, rank 1 asked for op Sum. All "
            "ranks must pass the same "
            "reduction op.");
  EXPECT_EQ(
      Verdict({a, With(a, [](Request* r) { r->prescale = 1.0 / 3; })}),
      "allreduce 'dense/bias': rank 0 sent prescale_factor 1 and postscale_factor 1, rank 1 sent "
      "prescale_factor "
      "0.3333333333333333 and postscale_factor 1. All ranks must pass the same scale factors.");
  EXPECT_EQ(Verdict({a, With(a, [](Request* r) { r->device = DeviceKind::kCuda; })}),
            "allreduce 'dense/bias': rank 0 sent a tensor on the CPU, rank 1 sent a tensor on a "
            "GPU. All ranks must "
            "keep this "
            "tensor on the same kind of device.");
  EXPECT_EQ(Verdict({a, With(a, [](Request* r) { r->kind = OpKind::kReducescatter; })}),
            "allreduce 'dense/bias': rank 0 asked for allreduce, rank 1 asked for reducescatter. "
            "The same name must mean the "
            "same operation on every rank; give different operations different names.");
  EXPECT_EQ(Verdict({With(a, [](Request* r) { r->codec = {Codec::kTernary, 2.5}; }),
                     With(a, [](Request* r) { r->codec = {Codec::kTernary, 3}; }), a}),
            "allreduce 'dense/bias': rank 0 asked for codec ternary(clip=2.5), rank 1 asked for "
            "codec ternary(clip=3), rank 2 asked for no codec. All ranks must encode the tensor by "
            "the same codec with the same parameter.");
  const Request b = Base(OpKind::kBroadcast);
  EXPECT_EQ(Verdict({b, With(b, [](Request* r) { r->root = 1; })}),
            "broadcast 'dense/bias': rank 0 named root 0, rank 1 named root 1. All ranks must name "
            "the same root_rank.");
  const Request g = Base(OpKind::kAllgather);
  EXPECT_EQ(Verdict({g, With(g, [](Request* r) { r->shape = {3, 4}; })}), "ok");
  EXPECT_EQ(Verdict({g, With(g, [](Request* r) { r->shape = {10, 5}; })}),
            "allgather 'dense/bias': rank 0 sent shape [10, 4], rank 1 sent shape [10, 5]. All "
            "dimensions but the first must "
            "be equal on all ranks.");
  const Request t = Base(OpKind::kAlltoall);
  EXPECT_EQ(Verdict({t, With(t, [](Request* r) { r->splits = {0, 10}; })}), "ok");
  const Request s = Base(OpKind::kAddProcessSet);
  EXPECT_EQ(Verdict({With(s, [](Request* r) { r->splits = {0, 1}; }),
                     With(s, [](Request* r) { r->splits = {0}; })}),
            "add_process_set 'dense/bias': rank 0 named the ranks [0, 1], rank 1 named the ranks "
            "[0]. All ranks must "
            "name the "
            "same process set, in the same order of calls.");
}

TEST(Validate, every_field_that_must_agree_is_told_apart) {
  const std::vector<std::function<void(Request*)>> changes = {
      [](Request* r) { r->kind = OpKind::kBarrier; },
      [](Request* r) { r->dtype = DType::kInt8; },
      [](Request* r) { r->op = ReduceOp::kMin; },
      [](Request* r) { r->device = DeviceKind::kCuda; },
      [](Request* r) { r->prescale = 2; },
      [](Request* r) { r->postscale = 2; },
      [](Request* r) { r->shape = {10}; },
      [](Request* r) { r->codec = {Codec::kSign, 0}; },
  };
  for (const OpKind kind :
       {OpKind::kAllreduce, OpKind::kAllgather, OpKind::kBroadcast, OpKind::kReducescatter}) {
    for (size_t i = 0; i < changes.size(); ++i) {
      const std::string verdict = Verdict({Base(kind), With(Base(kind), changes[i])});
      EXPECT_NE(verdict, "ok") << Name(kind) << i;
      EXPECT_FALSE(Says(verdict, "passed different arguments"))
          << "nothing said what differs: " << verdict;
    }
  }
}

TEST(Validate, what_a_joined_member_makes_impossible) {
  const auto verdict = [](OpKind kind) {
    Ledger ledger(2, 10);
    Request join;
    join.kind = OpKind::kJoin;
    join.name = "join";
    ledger.Add(1, join, 0);
    Request r = Base(kind);
    if (kind == OpKind::kBroadcast) r.root = 1;
    EXPECT_TRUE(ledger.Add(0, r, 0));
    const Status status = Validate(*ledger.TakeReady().at(0), {0, 5});
    return status.ok() ? std::string("ok") : status.message();
  };
  EXPECT_EQ(verdict(OpKind::kAllreduce), "ok");
  EXPECT_EQ(verdict(OpKind::kAllgather), "ok");
  EXPECT_EQ(verdict(OpKind::kBarrier), "ok");
  EXPECT_EQ(
      verdict(OpKind::kBroadcast),
      "broadcast 'dense/bias': rank 5 is the root but has called join() and has nothing to send.");
  EXPECT_EQ(
      verdict(OpKind::kAlltoall),
      "alltoall 'dense/bias': not possible after rank 5 called join(): a joined rank takes no part "
      "of the result, so "
      "data would be lost. allreduce, allgather, broadcast and barrier work with joined ranks.");
}

TEST(Validate, rank_lists_are_for_people) {
  EXPECT_EQ(RankList({3}), "rank 3");
  EXPECT_EQ(RankList({1, 0}), "ranks 0 and 1");
  EXPECT_EQ(RankList({0, 1, 3}), "ranks 0, 1 and 3");
  EXPECT_EQ(RankList({7, 0, 1, 2, 3, 4, 5, 9, 6}), "ranks 0-7 and 9");
  EXPECT_EQ(RankList({0, 1, 2, 10, 11, 12, 20}), "ranks 0-2, 10-12 and 20");
}

}  // namespace
}  // namespace hvdlite::engine
