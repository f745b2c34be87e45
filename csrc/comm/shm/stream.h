// PieceStream: the tensors of a batch seen as one long array of bytes, so that a chunk may span
// several tensors and a large tensor several chunks. Each piece starts on a cache line of the
// stream; the gaps are never touched.
//
// Pure; shared by the algorithms in this folder.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "comm/batch.h"

namespace hvdlite::comm {

class PieceStream {
 public:
  static constexpr uint64_t kAlign = 64;

  // `elements(piece)` says how many elements of that piece the stream holds.
  template <typename Elements>
  PieceStream(const Batch& batch, Elements elements) : size_of_(SizeOf(batch.dtype)) {
    starts_.reserve(batch.pieces.size());
    for (const Piece& piece : batch.pieces) {
      starts_.push_back(total_);
      const uint64_t bytes = static_cast<uint64_t>(elements(piece)) * size_of_;
      ends_.push_back(total_ + bytes);
      total_ = (total_ + bytes + kAlign - 1) / kAlign * kAlign;
    }
  }

  uint64_t total() const { return total_; }

  // Calls visit(piece index, byte offset within the piece, byte offset within [begin, end), bytes)
  // for each part of a piece that lies in [begin, end) of the stream.
  template <typename Visit>
  void ForEach(uint64_t begin, uint64_t end, Visit visit) const {
    size_t i = static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), begin) -
                                   starts_.begin());
    for (i = i == 0 ? 0 : i - 1; i < starts_.size() && starts_[i] < end; ++i) {
      const uint64_t from = std::max(begin, starts_[i]);
      const uint64_t to = std::min(end, ends_[i]);
      if (from < to) visit(i, from - starts_[i], from - begin, to - from);
    }
  }

 private:
  const uint64_t size_of_;
  uint64_t total_ = 0;
  std::vector<uint64_t> starts_;
  std::vector<uint64_t> ends_;
};

}  // namespace hvdlite::comm
