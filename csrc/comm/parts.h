// Parts of a large encoded or sparse batch: members work on some while the bytes of others travel.
#pragma once

#include <utility>
#include <vector>

#include "comm/batch.h"

namespace hvdlite::comm {

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

}  // namespace hvdlite::comm
