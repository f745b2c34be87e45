// Layout: how the tensors of gathering and scattering batches lie in a Flat: one block per member,
// each block made of that member's part of every piece. What travels to or from one peer is then
// one stretch.
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
// From where each begins, and the end of the last, to the blocks.
std::vector<Cursor> BlocksOf(const std::vector<size_t>& begin);
// The round's part of a block that is cut into chunks of so many bytes.
Cursor Chunk(Cursor block, size_t round, size_t chunk);
// An allreduce's pieces, dealt out evenly among `members` owners.
std::vector<size_t> EvenBlocks(const Batch& batch, int members);
// Every member's block of tensors that hold all of them (Allgather's output, Reducescatter's
// input).
Layout AllBlocks(const Batch& batch, int members, bool outputs, size_t align = 1);
// The same offsets, but only `me`'s block has memory (Allgather's input, Reducescatter's output).
Layout OwnBlock(const Batch& batch, int members, int me, bool outputs, size_t align = 1);
// Alltoall: the blocks that `me` sends, by destination, and receives, by source.
Layout SentBlocks(const Batch& batch, int members, int me);
Layout ReceivedBlocks(const Batch& batch, int members, int me);

}  // namespace hvdlite::comm
