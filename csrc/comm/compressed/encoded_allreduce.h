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
// Whole tensors of the batch (split.h) travel first, or among the exchanges (parts_work.h).
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
#include "comm/compressed/encoded_plan.h"

namespace hvdlite::comm::compressed {

// Starts an allreduce with a codec: that of `over`, if it has one of its own, else this one. Each
// member owns a share, and encoded shares travel by the alltoall and the allgather of `over`. `me`
// is this member's index among `members`. Borrows everything.
std::unique_ptr<Work> StartEncoded(Communicator* over, const Batch& batch, int me, int members);

// Counts an allreduce of these parts.
void CountEncoded(const std::vector<const EncodedPlan*>& plans, OpKind kind,
                  CarrierCounts* carrier_counts);

}  // namespace hvdlite::comm::compressed
