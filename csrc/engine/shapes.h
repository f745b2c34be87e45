// Shapes: the shapes of an operation's tensors, derived from its row of ops.def. Pure.
//
// `members` is the size of the process set, `member` a position in it. "Rows" are the sizes that
// may differ between members: for allgather each member's first dimension, for alltoall each
// member's splits, member by member (see Agreed::rows).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/message.h"

namespace hvdlite::engine {

// Whether the result's shape depends on all members' rows, so that it is known only when they have
// agreed.
constexpr bool RowsDiffer(OpKind kind) {
  return ResultOf(kind) == Result::kGathered || ResultOf(kind) == Result::kExchanged;
}

// Whether root, splits and shape of one member's request are possible at all. The wire may bring
// anything.
bool IsPossible(const Request& request, int members);
// The same for an agreement, whose request has the splits of one member.
bool IsPossible(const Agreed& agreed, int members);

// The communicators' operation that performs `kind`: a reduce is a reducescatter that gives the
// root everything.
constexpr OpKind PerformedAs(OpKind kind) {
  return ResultOf(kind) == Result::kAtRoot ? OpKind::kReducescatter : kind;
}

// The number of values in the rows of all members: 0 unless RowsDiffer(kind).
size_t RowCount(OpKind kind, int members);
// Writes the values of `member` into the rows of all members.
void PutRows(const Request& request, int member, int members, std::vector<int64_t>* rows);
// The request of `member`.
Request RequestOf(const Agreed& agreed, int member, int members);

// The result's shape, if the request alone determines it.
std::optional<Shape> KnownResult(const Request& request, int member, int members);
Shape ResultShape(const Agreed& agreed, int member, int members);
// The most bytes of one member's result.
int64_t ResultBytes(const Agreed& agreed);
// Elements per member, as comm::Piece::counts has them. Empty if all members have the same number.
std::vector<int64_t> Counts(const Agreed& agreed, int members);
// Alltoall: the number of rows from each member. Empty for other kinds.
std::vector<int64_t> RowsReceived(const Agreed& agreed, int member, int members);

}  // namespace hvdlite::engine
