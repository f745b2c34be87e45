// An allreduce to which each member contributes the greatest elements of its tensors, and remembers
// the others (kernels/select.h), over any communicator.
//
//   select     the greatest elements of input and memory, in one pass,   local
//              which leaves zeros in the result
//   allgather  values and positions to all                               bytes
//   spread     result += their sum * factor                              local
//
// Whole tensors of the batch (split.h) travel first, or among the exchanges (parts_work.h).
//
// A large batch goes in parts of consecutive tensors. While the bytes of one part are under way,
// the member selects from others, and spreads those that have arrived.
//
// All members add in the order of members, so all have the same bits. The new memory is complete
// when the operation is done; the old one does not change, so it holds if the operation fails.
// Where a value that a member has sent is not finite, the new memory of that tensor is the old one,
// on all members.
#pragma once

#include <memory>

#include "comm/communicator.h"

namespace hvdlite::comm::compressed {

// Starts an allreduce of a sparse batch. Its bytes travel by the allgather of `over`. `me` is this
// member's index among `members`. Borrows everything.
std::unique_ptr<Work> StartSparse(Communicator* over, const Batch& batch, int me, int members);

}  // namespace hvdlite::comm::compressed
