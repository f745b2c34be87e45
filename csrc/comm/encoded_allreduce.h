// An allreduce whose tensors travel encoded (docs/decisions/0014-codecs.md), over any communicator.
//
//   encode   p = prescale * input + residual, each owner's share                 local
//   alltoall shares to their owners                                              bytes
//   sum      the owner decodes and adds in the order of members, in float32,
//            and encodes the sum                                                 local
//   allgather encoded sums to all                                                bytes
//   finish   result = decoded sum / divisor * postscale;                         local
//            residual = p - decoded(p), and the owner adds sum - decoded(sum)
//
// All members, the owner too, decode the same bytes, so all have the same bits. A residual changes
// in the last step only: an operation that fails before leaves it as it was. So does a block whose
// result is not finite, on all members.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "comm/encoded_plan.h"
#include "comm/encoded_scratch.h"
#include "kernels/codec.h"

namespace hvdlite::comm {

// `over` carries the bytes. `carried` may be null. Borrows everything.
std::unique_ptr<Work> EncodedAllreduce(Communicator* over, EncodedScratch* scratch,
                                       Carried* carried, const Batch& batch, int me, int members);

// Random numbers of member `me`'s contribution, or of a sum that it encodes, from the block on that
// has `element`.
kernels::Draws DrawsOf(const Batch& batch, size_t piece, int me, bool of_sum, int64_t element);

// Counts an allreduce by this plan. `carried` may be null.
void CountEncoded(Carried* carried, const Batch& batch, const EncodedPlan& plan);

}  // namespace hvdlite::comm
