// An allreduce whose tensors travel encoded (docs/decisions/0014-codecs.md), over any communicator.
//
//   encode   p = prescale * input + residual, each owner's share;
//            residual = p - decoded(p), in the same pass                         local
//   alltoall shares to their owners                                              bytes
//   sum      the owner decodes and adds in the order of members, in float32,
//            and encodes the sum                                                 local
//   allgather encoded sums to all                                                bytes
//   finish   result = decoded sum / divisor * postscale;                         local
//            the owner's residual in its share = sum - decoded(sum)
//
// A large batch goes in parts of consecutive tensors. While the bytes of one part are under way,
// the member encodes, sums and finishes others, which costs no time on a slow network. Exchanges
// follow one another, in the same order on all members.
//
//   exchanges  contributions 0, 1, 2 | results 0 | contributions 3 | results 1 | ...
//
// Whole tensors of the batch (whole.h) travel first, or among the exchanges (parts_work.h).
//
// All members, the owner too, decode the same bytes, so all have the same bits. A block whose
// result is not finite leaves its residual as it was on all members: exactly where the member's own
// p is not finite and where it is the owner, elsewhere up to the rounding of p, because there
// finish takes back what encode has done. If the operation fails, residuals of encoded parts are
// new.
#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/encoded_plan.h"
#include "comm/encoded_scratch.h"

namespace hvdlite::comm {

// `over` carries the bytes. `carried` may be null. Borrows everything.
std::unique_ptr<Work> EncodedAllreduce(Communicator* over, EncodedScratch* scratch,
                                       Carried* carried, const Batch& batch, int me, int members);

// Counts an allreduce of these parts.
void CountEncoded(const std::vector<const EncodedPlan*>& plans, OpKind kind, Carried* carried);

}  // namespace hvdlite::comm
