#include "comm/compressed/encoded_plan.h"

#include <gtest/gtest.h>

#include "kernels/codec.h"

namespace hvdlite::comm::compressed {
namespace {

TEST(EncodedPlan, SmallTensorsAmongAFewMembersAreGathered) {
  struct Row {
    int64_t bytes;  // encoded
    int members;
    bool gathered;
  };
  // The bytes that gathering costs beyond those of owners are (n-1)(n-2)/n of the tensor's.
  const Row rows[] = {
      {1 << 30, 1, true}, {1 << 30, 2, true}, {1536, 3, true},  {1537, 3, false}, {682, 4, true},
      {683, 4, false},    {195, 8, true},     {196, 8, false},  {68, 16, true},   {78, 16, true},
      {79, 16, false},    {0, 1000, true},    {2, 1000, false},
  };
  for (const Row& row : rows)
    EXPECT_EQ(IsGathered(row.bytes, row.members), row.gathered) << row.bytes << " " << row.members;
}

TEST(EncodedPlan, SharesAreWholeBlocksFromTheFirstOwnerOn) {
  struct Row {
    int64_t count, block;
    int members;
    uint64_t tensor;
    std::vector<Share> shares;
  };
  const Row rows[] = {
      {1000, 256, 2, 0, {{0, 512}, {512, 1000}}},
      {1000, 256, 2, 1, {{512, 1000}, {0, 512}}},
      {1700, 256, 3, 0, {{0, 768}, {768, 1280}, {1280, 1700}}},
      {1700, 256, 3, 7, {{1280, 1700}, {0, 768}, {768, 1280}}},
      {10, 256, 3, 2, {{10, 10}, {10, 10}, {0, 10}}},
      {0, 256, 2, 5, {{0, 0}, {0, 0}}},
  };
  for (const Row& row : rows) {
    for (int m = 0; m < row.members; ++m) {
      EXPECT_EQ(ShareOf(row.count, row.block, row.members, m, row.tensor),
                row.shares[static_cast<size_t>(m)])
          << row.count << " " << m;
    }
  }
}

Batch BatchOf(const std::vector<int64_t>& counts) {
  Batch batch;
  batch.kind = OpKind::kAllreduce;
  batch.codec = {Codec::kInt8, 0};
  for (size_t i = 0; i < counts.size(); ++i) {
    Piece piece;
    piece.count = counts[i];
    piece.coding.tensor = 31 * i + 5;
    batch.pieces.push_back(piece);
  }
  return batch;
}

// What one member sends is what the other expects, and nothing overlaps.
TEST(EncodedPlan, AllMembersAgreeAboutOffsets) {
  const Batch batch = BatchOf({5, 100000, 0, 257, 4096, 1});
  for (int members = 1; members <= 6; ++members) {
    for (int me = 0; me < members; ++me) {
      const EncodedPlan plan(batch, me, members);
      int64_t sent = 0, received = 0, results = 0;
      for (int m = 0; m < members; ++m) {
        const EncodedPlan theirs(batch, m, members);
        EXPECT_EQ(plan.Contribution(m), theirs.Contribution(m));
        EXPECT_EQ(plan.ResultOf(m), results);
        results += plan.Result(m);
        if (m == me) continue;
        EXPECT_EQ(plan.SentTo(m), sent);
        EXPECT_EQ(plan.ReceivedFrom(m), received);
        sent += plan.Contribution(m);
        received += plan.Contribution(me);
      }
      EXPECT_EQ(plan.SentTo(me), sent);
      EXPECT_EQ(plan.ReceivedFrom(members), received);
      for (size_t i = 0; i < batch.pieces.size(); ++i) {
        int64_t owned = 0;
        for (int m = 0; m < members; ++m) owned += plan.share(i, m).count();
        EXPECT_EQ(owned, batch.pieces[i].count * (plan.gathers(i) ? members : 1));
      }
    }
  }
}

TEST(EncodedPlan, CountsWhatGoesToOthers) {
  const Batch batch = BatchOf({1 << 20});
  const EncodedPlan alone(batch, 0, 1);
  EXPECT_EQ(alone.sent_bytes(), 0);
  EXPECT_FALSE(alone.has_results());
  const EncodedPlan two(batch, 1, 2);
  EXPECT_EQ(two.sent_elements(), 1 << 20);
  EXPECT_EQ(two.sent_bytes(), kernels::EncodedBytes(batch.codec, 1 << 20));
  const EncodedPlan four(batch, 2, 4);
  EXPECT_TRUE(four.has_results());
  EXPECT_EQ(four.sent_elements(), (1 << 20) / 4 * 6);
}

}  // namespace
}  // namespace hvdlite::comm::compressed
