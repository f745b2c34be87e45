// Cut: how a batch is taken apart into rounds, each of which fits into staging memory. Pure: all
// members cut alike, whether their tensors lie on a GPU or nowhere.
//
// What is summed element by element, told or gathered is one long array for this (comm/layout.h),
// so that a round takes as much as fits, of many small tensors or of a part of a large one. Adasum
// looks at each tensor as a whole: its rounds hold whole tensors, and at least one.
#pragma once

#include <cstddef>
#include <vector>

#include "comm/batch.h"
#include "comm/flat.h"

namespace hvdlite::comm::gpu {

struct Round {
  std::vector<Cursor> give;  // of Cut::source(): one after another they are the staged input
  std::vector<Cursor> take;  // of Cut::target(): where the staged output goes
  size_t give_bytes = 0;
  size_t take_bytes = 0;
  // for the host; they follow one another in staging memory, but have no memory yet
  std::vector<Piece> pieces;
};

class Cut {
 public:
  // `room`: bytes that a round may take of input, and of output.
  Cut(const Batch& batch, int me, int members, size_t room);

  size_t rounds() const { return rounds_; }
  Round At(size_t round) const;
  const Flat& source() const { return source_; }
  const Flat& target() const { return target_; }
  // The host reads and writes the same staging memory.
  bool in_place() const;
  // The bytes that the largest round needs, of input or of output.
  size_t largest() const { return largest_; }

 private:
  void CutWhole(const Batch& batch, size_t room);
  void CutStraight(const Batch& batch, int me, size_t room);
  void CutBlocks(const Batch& batch, int me, int members, size_t room);

  const OpKind kind_;
  const size_t element_;
  Flat source_;
  Flat target_;
  size_t rounds_ = 0;
  size_t largest_ = 0;
  // By block: where it lies in source and target; what this member has none of is empty there.
  // `all` are the lengths of all blocks that the members speak of, in the order of Piece::counts.
  std::vector<Cursor> give_;
  std::vector<Cursor> take_;
  std::vector<size_t> all_;
  size_t part_ = 0;            // so much of each block is in a round
  std::vector<size_t> whole_;  // Adasum: pieces begin here, and end where the next one begins
  std::vector<size_t> first_;  // Adasum: the first piece of each round, and the number of pieces
};

}  // namespace hvdlite::comm::gpu
