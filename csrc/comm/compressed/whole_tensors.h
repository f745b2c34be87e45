// WholeTensors: the whole tensors (split.h) of an encoded or sparse batch, by their owners, in two
// exchanges among those of its parts. Packed: they are small.
//
//   contributions   my share of each owner's block              alltoall
//   results         blocks, summed in the order of members      allgather
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "comm/batch.h"
#include "comm/layout.h"
#include "comm/reduction.h"
#include "comm/scratch.h"

namespace hvdlite::comm::compressed {

class WholeTensors {
 public:
  // Packing more bytes would cost more than it saves.
  static constexpr size_t kMost = 1 << 20;

  // The batch and the memory must outlive it.
  WholeTensors(const Batch& batch, Scratch* scratch, int me, int members)
      : batch_(batch), me_(me), members_(members), begin_(EvenBlocks(batch, members)) {
    const size_t received = static_cast<size_t>(members) * Own();
    packed_ = GrowTo(static_cast<int64_t>(Size() + received), &scratch->whole);
    received_ = packed_ + Size();
  }
  WholeTensors(const WholeTensors&) = delete;
  WholeTensors& operator=(const WholeTensors&) = delete;

  const Batch& Contributions() {
    CopyOut(Inputs(batch_), {0, Size()}, packed_);
    contributions_.kind = OpKind::kAlltoall;
    Piece piece;
    piece.input = packed_;
    piece.output = received_;
    for (int from = 0; from < members_; ++from)
      for (int to = 0; to < members_; ++to) piece.counts.push_back(Bytes(to));
    contributions_.pieces.push_back(std::move(piece));
    return contributions_;
  }

  // After the exchange of contributions. The sum of my block takes the place of my contribution.
  const Batch& Results() {
    std::vector<const char*> rows;
    for (int m = 0; m < members_; ++m) rows.push_back(received_ + static_cast<size_t>(m) * Own());
    Reduction(batch_, Packed(), Packed()).Reduce(me_, rows, Begin(me_), Begin(me_ + 1));
    results_.kind = OpKind::kAllgather;
    Piece piece;
    piece.input = packed_ + Begin(me_);
    piece.output = packed_;
    for (int m = 0; m < members_; ++m) piece.counts.push_back(Bytes(m));
    results_.pieces.push_back(std::move(piece));
    return results_;
  }

  // After the exchange of results.
  void Finish() { Copy(Packed(), 0, Outputs(batch_), 0, Size()); }

 private:
  size_t Size() const { return begin_.back(); }
  Flat Packed() const { return {packed_, Size()}; }
  size_t Begin(int member) const { return begin_[static_cast<size_t>(member)]; }
  int64_t Bytes(int member) const {
    return static_cast<int64_t>(Begin(member + 1) - Begin(member));
  }
  size_t Own() const { return Begin(me_ + 1) - Begin(me_); }

  const Batch& batch_;
  const int me_, members_;
  const std::vector<size_t> begin_;  // of each member's block, and the end of the last
  char* packed_;
  char* received_;  // contributions to my block, one member after the other
  Batch contributions_, results_;
};

}  // namespace hvdlite::comm::compressed
