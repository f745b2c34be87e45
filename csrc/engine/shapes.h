// Shapes: what follows from an operation's row of ops.def for the shapes of its tensors. Pure.
//
// `members` is the size of the process set, `member` a position in it. "Rows" are what members may
// say differently: allgather: each member's first dimension; alltoall: each member's splits, member
// by member (see Agreed::rows).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/message.h"

namespace hvdlite::engine {

// Whether the result's shape depends on all members' rows, so that only hvdlite can allocate the
// result.
constexpr bool RowsDiffer(OpKind kind) {
  return ResultOf(kind) == Result::kGathered || ResultOf(kind) == Result::kExchanged;
}

// Whether root, splits and shape of what one member asks for are possible at all. The wire may
// bring anything.
bool IsPossible(const Request& request, int members);
// The same for what the members have agreed on, whose request has the splits of one of them.
bool IsPossible(const Agreed& agreed, int members);

// How many numbers all members' rows are: 0 unless RowsDiffer(kind).
size_t RowCount(OpKind kind, int members);
// Writes what `member` says into everyone's rows.
void PutRows(const Request& request, int member, int members, std::vector<int64_t>* rows);
// What `member` has asked for.
Request RequestOf(const Agreed& agreed, int member, int members);

// The result's shape if the request alone tells it.
std::optional<Shape> KnownResult(const Request& request, int member, int members);
Shape ResultShape(const Agreed& agreed, int member, int members);
// Bytes that one member's result has at most.
int64_t ResultBytes(const Agreed& agreed);
// Elements per member, as comm::Piece::counts wants them; empty where all members have the same
// number.
std::vector<int64_t> Counts(const Agreed& agreed, int members);
// Alltoall: how many rows come from each member. Else empty.
std::vector<int64_t> RowsReceived(const Agreed& agreed, int member, int members);

}  // namespace hvdlite::engine
