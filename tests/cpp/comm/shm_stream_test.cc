#include "comm/shm/stream.h"

#include <gtest/gtest.h>

#include <random>

namespace hvdlite::comm {
namespace {

Batch WithCounts(const std::vector<int64_t>& counts, DType dtype) {
  Batch batch;
  batch.dtype = dtype;
  for (int64_t count : counts) {
    Piece piece;
    piece.count = count;
    batch.pieces.push_back(piece);
  }
  return batch;
}

int64_t Count(const Piece& piece) {
  return piece.count;
}

TEST(PieceStream, pieces_start_on_cache_lines) {
  const Batch batch = WithCounts({1, 0, 16, 17, 0}, DType::kFloat32);
  const PieceStream stream(batch, Count);
  EXPECT_EQ(stream.total(), 64u + 0 + 64 + 128);
  std::vector<std::vector<uint64_t>> visits;
  stream.ForEach(0, stream.total(), [&](size_t i, uint64_t offset, uint64_t at, uint64_t bytes) {
    visits.push_back({i, offset, at, bytes});
  });
  EXPECT_EQ(visits,
            (std::vector<std::vector<uint64_t>>{{0, 0, 0, 4}, {2, 0, 64, 64}, {3, 0, 128, 68}}));
}

TEST(PieceStream, any_cut_into_windows_visits_every_byte_once) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    std::vector<int64_t> counts(random() % 12);
    for (int64_t& c : counts) c = random() % 3 == 0 ? 0 : random() % 400;
    const DType dtype = random() % 2 == 0 ? DType::kInt8 : DType::kFloat64;
    const Batch batch = WithCounts(counts, dtype);
    const PieceStream stream(batch, Count);
    std::vector<std::vector<char>> seen;
    for (int64_t c : counts) seen.emplace_back(static_cast<size_t>(c) * SizeOf(dtype), 0);
    for (uint64_t begin = 0; begin < stream.total();) {
      const uint64_t end = std::min(stream.total(), begin + (1 + random() % 9) * 64);
      stream.ForEach(begin, end, [&](size_t i, uint64_t offset, uint64_t at, uint64_t bytes) {
        ASSERT_GT(bytes, 0u);
        ASSERT_LE(at + bytes, end - begin);
        ASSERT_EQ(bytes % SizeOf(dtype), 0u) << "no element is cut";
        for (uint64_t b = 0; b < bytes; ++b) ASSERT_EQ(seen[i][offset + b]++, 0);
      });
      begin = end;
    }
    for (const auto& piece : seen) {
      for (char count : piece) ASSERT_EQ(count, 1);
    }
  }
}

}  // namespace
}  // namespace hvdlite::comm
