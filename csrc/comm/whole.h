// The two kinds of tensors in an encoded or sparse batch: those that travel whole, as in any
// allreduce, and the others. The former travel first, while members work on the latter: see
// parts_work.h.
#pragma once

#include <algorithm>

#include "comm/batch.h"

namespace hvdlite::comm {

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

}  // namespace hvdlite::comm
