#include "comm/layout.h"

namespace hvdlite::comm {

namespace {

// Lays out the blocks, piece by piece. A member's part of a piece has `elements(piece, member)`
// elements and begins where the parts of earlier members end.
template <typename Elements, typename Memory>
Layout Blocks(const Batch& batch, int members, size_t align, Elements elements, Memory memory) {
  const size_t size = SizeOf(batch.dtype);
  Layout layout;
  layout.begin.reserve(static_cast<size_t>(members) + 1);
  layout.flat.Reserve(batch.pieces.size() * static_cast<size_t>(members));
  std::vector<size_t> offsets(batch.pieces.size(), 0);  // into each piece
  for (int member = 0; member < members; ++member) {
    layout.flat.Align(align);
    layout.begin.push_back(layout.flat.size());
    for (size_t i = 0; i < batch.pieces.size(); ++i) {
      const size_t bytes = static_cast<size_t>(elements(batch.pieces[i], member)) * size;
      layout.flat.Add(bytes == 0 ? nullptr : memory(batch.pieces[i], member, offsets[i]), bytes,
                      align);
      offsets[i] += bytes;
    }
  }
  layout.begin.push_back(layout.flat.size());
  return layout;
}

int64_t Count(const Piece& piece, int member) {
  return piece.counts[static_cast<size_t>(member)];
}

const char* Base(const Piece& piece, bool outputs) {
  return static_cast<const char*>(outputs ? piece.output : piece.input);
}

Flat Whole(const Batch& batch, bool outputs, size_t align) {
  Flat flat;
  flat.Reserve(batch.pieces.size());
  for (const Piece& piece : batch.pieces) {
    flat.Add(Base(piece, outputs), static_cast<size_t>(piece.count) * SizeOf(batch.dtype), align);
  }
  return flat;
}

}  // namespace

Flat Inputs(const Batch& batch, size_t align) {
  return Whole(batch, /*outputs=*/false, align);
}

Flat Outputs(const Batch& batch, size_t align) {
  return Whole(batch, /*outputs=*/true, align);
}

std::vector<Cursor> BlocksOf(const std::vector<size_t>& begin) {
  std::vector<Cursor> blocks;
  for (size_t i = 0; i + 1 < begin.size(); ++i) blocks.push_back({begin[i], begin[i + 1]});
  return blocks;
}

Cursor Chunk(Cursor block, size_t round, size_t chunk) {
  const size_t at = std::min(block.end, block.at + round * chunk);
  return {at, std::min(block.end, at + chunk)};
}

std::vector<size_t> EvenBlocks(const Batch& batch, int members) {
  size_t elements = 0;
  for (const Piece& piece : batch.pieces) elements += static_cast<size_t>(piece.count);
  std::vector<size_t> begin;
  begin.reserve(static_cast<size_t>(members) + 1);
  for (int i = 0; i <= members; ++i)
    begin.push_back(PartBegin(elements, members, i) * SizeOf(batch.dtype));
  return begin;
}

Layout AllBlocks(const Batch& batch, int members, bool outputs, size_t align) {
  return Blocks(batch, members, align, Count, [&](const Piece& piece, int, size_t offset) {
    return Base(piece, outputs) + offset;
  });
}

Layout OwnBlock(const Batch& batch, int members, int me, bool outputs, size_t align) {
  return Blocks(batch, members, align, Count, [&](const Piece& piece, int member, size_t) {
    return member == me ? Base(piece, outputs) : nullptr;
  });
}

Layout SentBlocks(const Batch& batch, int members, int me) {
  return Blocks(
      batch, members, 1,
      [&](const Piece& piece, int to) { return Count(piece, me * members + to); },
      [](const Piece& piece, int, size_t offset) { return Base(piece, false) + offset; });
}

Layout ReceivedBlocks(const Batch& batch, int members, int me) {
  return Blocks(
      batch, members, 1,
      [&](const Piece& piece, int from) { return Count(piece, from * members + me); },
      [](const Piece& piece, int, size_t offset) { return Base(piece, true) + offset; });
}

}  // namespace hvdlite::comm
