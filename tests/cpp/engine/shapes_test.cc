// What follows from an operation's row of ops.def for shapes, as tables.
#include "engine/shapes.h"

#include <gtest/gtest.h>

namespace hvdlite::engine {
namespace {

using Rows = std::vector<int64_t>;

Agreed AgreedOn(OpKind kind, Shape shape, Rows rows = {}) {
  Agreed agreed;
  agreed.request.kind = kind;
  agreed.request.shape = std::move(shape);
  agreed.rows = std::move(rows);
  return agreed;
}

Request RequestFor(OpKind kind, Shape shape, std::vector<int64_t> splits = {}, int64_t root = 0) {
  Request request;
  request.kind = kind;
  request.shape = std::move(shape);
  request.splits = std::move(splits);
  request.root = root;
  return request;
}

TEST(Shapes, a_result_has_the_shape_that_its_kind_says) {
  // Three members; the middle one looks.
  EXPECT_EQ(ResultShape(AgreedOn(OpKind::kAllreduce, {5, 2}), 1, 3), (Shape{5, 2}));
  EXPECT_EQ(ResultShape(AgreedOn(OpKind::kBroadcast, {}), 1, 3), Shape());
  EXPECT_EQ(ResultShape(AgreedOn(OpKind::kAllgather, {1, 2}, {1, 0, 4}), 1, 3), (Shape{5, 2}));
  EXPECT_EQ(ResultShape(AgreedOn(OpKind::kAlltoall, {9, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9}), 1, 3),
            (Shape{15, 2}));
  EXPECT_EQ(ResultShape(AgreedOn(OpKind::kReducescatter, {5, 2}), 1, 3), (Shape{2, 2}));
  EXPECT_EQ(ResultShape(AgreedOn(OpKind::kReducescatter, {5, 2}), 2, 3), (Shape{1, 2}));
}

TEST(Shapes, a_result_is_known_before_the_others_have_come_unless_it_has_their_rows) {
  for (const OpKind kind : {OpKind::kAllreduce, OpKind::kBroadcast, OpKind::kReducescatter}) {
    const Request request = RequestFor(kind, {7, 2});
    EXPECT_EQ(KnownResult(request, 0, 2), ResultShape(AgreedOn(kind, {7, 2}), 0, 2)) << Name(kind);
  }
  EXPECT_EQ(KnownResult(RequestFor(OpKind::kAllgather, {7}), 0, 2), std::nullopt);
  EXPECT_EQ(KnownResult(RequestFor(OpKind::kAlltoall, {7}, {3, 4}), 0, 2), std::nullopt);
  EXPECT_EQ(KnownResult(RequestFor(OpKind::kBarrier, {}), 0, 2), std::nullopt);
}

TEST(Shapes, counts_are_elements_and_stand_only_where_members_differ) {
  EXPECT_EQ(Counts(AgreedOn(OpKind::kAllreduce, {5, 2}), 3), Rows());
  EXPECT_EQ(Counts(AgreedOn(OpKind::kBroadcast, {5, 2}), 3), Rows());
  EXPECT_EQ(Counts(AgreedOn(OpKind::kReducescatter, {5, 2}), 3), (Rows{4, 4, 2}));
  EXPECT_EQ(Counts(AgreedOn(OpKind::kAllgather, {1, 2}, {1, 0, 4}), 3), (Rows{2, 0, 8}));
  EXPECT_EQ(Counts(AgreedOn(OpKind::kAlltoall, {3, 2}, {1, 2, 3, 4}), 2), (Rows{2, 4, 6, 8}));
}

TEST(Shapes, a_member_receives_its_column_of_an_alltoalls_rows) {
  EXPECT_EQ(RowsReceived(AgreedOn(OpKind::kAlltoall, {3}, {1, 2, 3, 4}), 1, 2), (Rows{2, 4}));
  EXPECT_EQ(RowsReceived(AgreedOn(OpKind::kAllgather, {3}, {3, 4}), 1, 2), Rows());
}

TEST(Shapes, what_a_member_says_can_be_read_from_what_all_have_agreed_on) {
  for (const OpKind kind : {OpKind::kAllreduce, OpKind::kAllgather, OpKind::kAlltoall}) {
    const bool exchanges = kind == OpKind::kAlltoall;
    const Request said[] = {
        RequestFor(kind, {4, 2}, exchanges ? Rows{1, 3} : Rows()),
        RequestFor(kind, {RowsDiffer(kind) ? 5 : 4, 2}, exchanges ? Rows{0, 5} : Rows())};
    Agreed agreed{said[0], Rows(RowCount(kind, 2))};
    for (int m = 0; m < 2; ++m) PutRows(said[m], m, 2, &agreed.rows);
    for (int m = 0; m < 2; ++m) {
      const Request read = RequestOf(agreed, m, 2);
      EXPECT_EQ(read.splits, said[m].splits) << Name(kind);
      if (exchanges) continue;  // an alltoall agrees on rows and not on their sum
      EXPECT_EQ(read.shape, said[m].shape) << Name(kind);
    }
  }
}

TEST(Shapes, a_batch_grows_by_the_bytes_of_the_result) {
  EXPECT_EQ(ResultBytes(AgreedOn(OpKind::kAllreduce, {5, 2})), 40);
  EXPECT_EQ(ResultBytes(AgreedOn(OpKind::kReducescatter, {5, 2})), 40);
  EXPECT_EQ(ResultBytes(AgreedOn(OpKind::kAllgather, {1, 2}, {1, 0, 4})), 40);
}

TEST(Shapes, what_no_member_can_have_meant_is_impossible) {
  EXPECT_TRUE(IsPossible(RequestFor(OpKind::kAllreduce, {}), 2));
  EXPECT_TRUE(IsPossible(RequestFor(OpKind::kBroadcast, {}, {}, 1), 2));
  EXPECT_FALSE(IsPossible(RequestFor(OpKind::kBroadcast, {}, {}, 2), 2));
  EXPECT_FALSE(IsPossible(RequestFor(OpKind::kBroadcast, {}, {}, -1), 2));
  EXPECT_TRUE(IsPossible(RequestFor(OpKind::kAllreduce, {}, {}, 7), 2))
      << "the root means nothing here";
  for (const OpKind kind : {OpKind::kAllgather, OpKind::kReducescatter}) {
    EXPECT_FALSE(IsPossible(RequestFor(kind, {}), 2)) << Name(kind);
    EXPECT_TRUE(IsPossible(RequestFor(kind, {0}), 2)) << Name(kind);
  }
  EXPECT_FALSE(IsPossible(RequestFor(OpKind::kAlltoall, {}, {0, 0}), 2));
  EXPECT_FALSE(IsPossible(RequestFor(OpKind::kAlltoall, {1}, {1}), 2));
  EXPECT_TRUE(IsPossible(RequestFor(OpKind::kAlltoall, {1}, {1, 0}), 2));
}

TEST(Shapes, an_agreement_without_all_rows_is_impossible) {
  EXPECT_TRUE(IsPossible(AgreedOn(OpKind::kAllgather, {1}, {1, 2}), 2));
  EXPECT_FALSE(IsPossible(AgreedOn(OpKind::kAllgather, {1}, {1}), 2));
  EXPECT_TRUE(IsPossible(AgreedOn(OpKind::kAlltoall, {1}, {1, 0, 0, 1}), 2));
  EXPECT_FALSE(IsPossible(AgreedOn(OpKind::kAlltoall, {1}, {1, 0}), 2));
  EXPECT_FALSE(IsPossible(AgreedOn(OpKind::kAllreduce, {1}, {1}), 2));
  EXPECT_FALSE(IsPossible(AgreedOn(OpKind::kAllgather, {}, {1, 2}), 2));
}

}  // namespace
}  // namespace hvdlite::engine
