// Packed plans: tensors go through one buffer, packed before NCCL's calls and unpacked after them.
#include "comm/nccl/planner.h"

namespace hvdlite::comm::nccl {

void Planner::PackedAllgather(bool padded) {
  ForEachShare(padded, [&](int m, const Piece& piece, char* place, size_t bytes, size_t offset) {
    if (m == context_.me) Before(piece.input, place, bytes);
    After(m == context_.me ? piece.input : place, At(piece.output, offset), bytes);
  });
  if (padded)
    return Do(What::kAllGather, buffer_ + PartBegin(context_.me, true), buffer_, largest_);
  for (int m = 0; m < context_.size; ++m) {
    char* part = buffer_ + PartBegin(m, false);
    Do(What::kBroadcast, part, part, parts_[static_cast<size_t>(m)], m);
  }
}

void Planner::PackedReducescatter(bool padded) {
  ForEachShare(padded, [&](int m, const Piece& piece, char* place, size_t bytes, size_t offset) {
    Before(At(piece.input, offset), place, bytes);
    if (m == context_.me) After(place, piece.output, bytes);
  });
  if (padded)
    return Do(What::kReduceScatter, buffer_, buffer_ + PartBegin(context_.me, true), largest_);
  for (int m = 0; m < context_.size; ++m) {
    char* part = buffer_ + PartBegin(m, false);
    Do(What::kReduce, part, part, parts_[static_cast<size_t>(m)], m);
  }
}

void Planner::PackedAllreduce() {
  char* place = buffer_;
  for (const Piece* piece : pieces_) {
    const size_t bytes = Bytes(piece->count);
    Before(piece->input, place, bytes);
    After(place, piece->output, bytes);
    place += Aligned(bytes);
  }
  Allreduce(buffer_, buffer_, Shared(static_cast<size_t>(place - buffer_)));
}

void Planner::PackedBroadcast() {
  char* place = buffer_;
  for (const Piece* piece : pieces_) {
    const size_t bytes = Bytes(piece->count);
    if (context_.me == batch_.root) {
      Before(piece->input, place, bytes);
      if (piece->output != nullptr && piece->output != piece->input)
        After(piece->input, piece->output, bytes);
    } else {
      After(place, piece->output, bytes);
    }
    place += Aligned(bytes);
  }
  Do(What::kBroadcast, buffer_, buffer_, static_cast<size_t>(place - buffer_), batch_.root);
}

}  // namespace hvdlite::comm::nccl
