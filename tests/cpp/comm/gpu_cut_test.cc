#include "comm/gpu/cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace hvdlite::comm::gpu {
namespace {

char memory[1 << 16];  // is pointed at, never read

struct Kind {
  OpKind op;
  bool adasum;
};

constexpr Kind kKinds[] = {{OpKind::kAllreduce, false},     {OpKind::kAllreduce, true},
                           {OpKind::kBroadcast, false},     {OpKind::kAllgather, false},
                           {OpKind::kReducescatter, false}, {OpKind::kAlltoall, false}};

Batch RandomBatch(const Kind& kind, int me, int members, std::mt19937* random) {
  const auto count = [random] {
    return static_cast<int64_t>((*random)() % 3 == 0 ? 0 : (*random)() % 40);
  };
  Batch batch;
  batch.kind = kind.op;
  batch.adasum = kind.adasum;
  batch.dtype = (*random)() % 2 == 0 ? DType::kInt8 : DType::kFloat32;
  const size_t pieces = kind.op == OpKind::kAlltoall ? 1 : 1 + (*random)() % 5;
  for (size_t i = 0; i < pieces; ++i) {
    Piece piece;
    if (kind.op == OpKind::kAllreduce || kind.op == OpKind::kBroadcast) {
      piece.count = count();
    } else {
      const int blocks = kind.op == OpKind::kAlltoall ? members * members : members;
      for (int b = 0; b < blocks; ++b) piece.counts.push_back(count());
    }
    const bool root = me == batch.root;
    piece.input = kind.op == OpKind::kBroadcast && !root ? nullptr : memory;
    piece.output = kind.op == OpKind::kBroadcast && root ? nullptr : memory;
    batch.pieces.push_back(std::move(piece));
  }
  return batch;
}

// How often each byte is in a round.
std::vector<int> Visits(const Cut& cut, const Flat& flat, std::vector<Cursor> Round::* stretches) {
  std::vector<int> visits(flat.size(), 0);
  for (size_t round = 0; round < cut.rounds(); ++round) {
    const Round part = cut.At(round);
    for (const Cursor& stretch : part.*stretches) {
      for (size_t at = stretch.at; at < stretch.end; ++at) ++visits[at];
    }
  }
  return visits;
}

// Once each that this member has memory for.
std::vector<int> Once(const Flat& flat) {
  std::vector<int> visits;
  size_t reach = 0;
  for (size_t at = 0; at < flat.size(); ++at)
    visits.push_back(flat.At(at, &reach) == nullptr ? 0 : 1);
  return visits;
}

TEST(GpuCut, every_byte_is_in_one_round_and_no_round_is_larger_than_there_is_room_for) {
  std::mt19937 random(1);
  for (int turn = 0; turn < 600; ++turn) {
    const Kind& kind = kKinds[turn % std::size(kKinds)];
    const int members = 1 + static_cast<int>(random() % 4);
    const int me = static_cast<int>(random() % static_cast<unsigned>(members));
    const size_t room = 1 + random() % 200;
    const Batch batch = RandomBatch(kind, me, members, &random);
    const Cut cut(batch, me, members, room);
    EXPECT_EQ(Visits(cut, cut.source(), &Round::give), Once(cut.source()));
    EXPECT_EQ(Visits(cut, cut.target(), &Round::take), Once(cut.target()));
    const size_t least =
        SizeOf(batch.dtype) * static_cast<size_t>(kind.op == OpKind::kAllreduce ? 1 : members);
    for (size_t round = 0; round < cut.rounds(); ++round) {
      const Round part = cut.At(round);
      EXPECT_LE(std::max(part.give_bytes, part.take_bytes), cut.largest());
      const auto filled = std::count_if(part.pieces.begin(), part.pieces.end(),
                                        [](const Piece& p) { return p.count > 0; });
      if (kind.adasum && filled == 1) continue;  // a tensor is never cut
      EXPECT_LE(std::max(part.give_bytes, part.take_bytes), std::max(room, least));
    }
  }
}

}  // namespace
}  // namespace hvdlite::comm::gpu
