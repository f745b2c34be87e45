// Cut: divides a batch into rounds, each of which fits into staging memory. Pure: all members cut
// alike, whether or not their tensors are on a GPU.
//
// Tensors that are summed element by element, broadcast or gathered are one long array here
// (comm/layout.h). So a round takes as much as fits: many small tensors, or a part of a large one.
// Adasum looks at each tensor as a whole, so its rounds hold whole tensors, and at least one.
#pragma once

#include <cstddef>
#include <vector>

#include "comm/batch.h"
#include "comm/flat.h"

namespace hvdlite::comm::gpu {

struct Round {
  std::vector<Cursor> give;  // in Cut::source(): one after another they are the staged input
  std::vector<Cursor> take;  // in Cut::target(): the places of the staged output
  size_t give_bytes = 0;
  size_t take_bytes = 0;
  // for the host communicator; one after another in staging memory, without pointers yet
  std::vector<Piece> pieces;
};

class Cut {
 public:
  // `room`: the most bytes of input, and of output, in a round.
  Cut(const Batch& batch, int me, int members, size_t room);

  size_t rounds() const { return rounds_; }
  Round At(size_t round) const;
  const Flat& source() const { return source_; }
  const Flat& target() const { return target_; }
  // Whether the host reads and writes the same staging memory.
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
  // By block: its place in source and target; empty if this member has nothing of it. `all_` has
  // the lengths of all blocks that the members exchange, in the order of Piece::counts.
  std::vector<Cursor> give_;
  std::vector<Cursor> take_;
  std::vector<size_t> all_;
  size_t part_ = 0;            // bytes of each block in a round
  std::vector<size_t> whole_;  // Adasum: the begin of each piece, and the end of the last
  std::vector<size_t> first_;  // Adasum: the first piece of each round, and the number of pieces
};

}  // namespace hvdlite::comm::gpu
