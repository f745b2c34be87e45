// Checks a call as far as this rank alone can. Pure. negotiate/validate checks what only the ranks
// together can get wrong.
#pragma once

#include "engine/message.h"
#include "kernels/select.h"

namespace hvdlite::api {

// Returns kInvalidArgument or kUnsupported with a sentence, or OK. `members` is the size of the
// process set. Fills in the splits of an alltoall that gave none.
Status CheckArguments(engine::Request* request, int members);

// Checks the codec of a request, and a residual; one without data is none. `device`: the tensor's.
Status CheckCodec(const engine::Request& request, const Device& device, const TensorView& residual);
// Checks a sparse request, and its memory.
Status CheckSelection(const engine::Request& request, const kernels::Selection& memory);

// Checks that a result allocated by the caller has the right size, dtype and device. `me` is this
// rank's position among the members.
Status CheckOutput(const engine::Request& request, const TensorView& output, int members, int me);

}  // namespace hvdlite::api
