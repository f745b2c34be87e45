// Layout: how the tensors of gathering and scattering batches lie in a Flat: one block per member,
// each block made of that member's part of every piece. So the bytes to or from one peer are one
// stretch.
//
//   pieces:  A = a0 a1 a2   B = b0 b1 b2          (x_i: member i's part)
//   Flat:    a0 b0 | a1 b1 | a2 b2
//            ^begin[0]^begin[1]^begin[2]^begin[3]
#pragma once

#include <cstddef>
#include <vector>

#include "comm/batch.h"
#include "comm/flat.h"

namespace hvdlite::comm {

struct Layout {
  Flat flat;
  std::vector<size_t> begin;  // members + 1 offsets

  Cursor Block(int member) const {
    const auto i = static_cast<size_t>(member);
    return {begin[i], begin[i + 1]};
  }
};

// The pieces one after another, each `count` elements long (Allreduce, Broadcast). Here and below
// each part of a piece begins at a multiple of `align`.
Flat Inputs(const Batch& batch, size_t align = 1);
Flat Outputs(const Batch& batch, size_t align = 1);
// Makes blocks of their begins and the end of the last.
std::vector<Cursor> BlocksOf(const std::vector<size_t>& begin);
// The part of a block that belongs to a round, if rounds have `chunk` bytes of it.
Cursor Chunk(Cursor block, size_t round, size_t chunk);
// The begins of the blocks when an allreduce's pieces are divided evenly among `members` owners.
std::vector<size_t> EvenBlocks(const Batch& batch, int members);
// The blocks of all members, in tensors that hold all of them (Allgather's output, Reducescatter's
// input).
Layout AllBlocks(const Batch& batch, int members, bool outputs, size_t align = 1);
// The same offsets, but only `me`'s block has memory (Allgather's input, Reducescatter's output).
Layout OwnBlock(const Batch& batch, int members, int me, bool outputs, size_t align = 1);
// Alltoall: the blocks that `me` sends, by destination, and the blocks that it receives, by source.
Layout SentBlocks(const Batch& batch, int members, int me);
Layout ReceivedBlocks(const Batch& batch, int members, int me);

}  // namespace hvdlite::comm
