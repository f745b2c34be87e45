// How an encoded or sparse batch is split. Some of its tensors travel whole, as in any allreduce.
// They travel first, while members work on the others: see parts_work.h. The others of a large
// batch are cut into parts, so that members work on some while the bytes of others travel.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "comm/batch.h"

namespace hvdlite::comm::compressed {

inline bool HasWhole(const Batch& batch) {
  return std::any_of(batch.pieces.begin(), batch.pieces.end(),
                     [](const Piece& piece) { return piece.whole; });
}

inline Batch OnlyWhole(const Batch& batch) {
  Batch whole = batch;
  whole.codec = {};
  whole.sparse = false;
  std::erase_if(whole.pieces, [](const Piece& piece) { return !piece.whole; });
  return whole;
}

inline Batch WithoutWhole(const Batch& batch) {
  Batch others = batch;
  std::erase_if(others.pieces, [](const Piece& piece) { return piece.whole; });
  return others;
}

// Elements of a part, or a few more: milliseconds of local work.
constexpr int64_t kElementsOfPart = 2 << 20;

// Parts of consecutive tensors. All members cut alike.
inline std::vector<Batch> InParts(const Batch& batch) {
  std::vector<Batch> parts;
  int64_t count = kElementsOfPart;  // of the last part: it takes no more
  for (const Piece& piece : batch.pieces) {
    if (count >= kElementsOfPart) {
      parts.push_back(batch);
      parts.back().pieces.clear();
      count = 0;
    }
    parts.back().pieces.push_back(piece);
    count += piece.count;
  }
  return parts;
}

}  // namespace hvdlite::comm::compressed
