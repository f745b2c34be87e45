// Is a call right as seen from this rank alone? Pure. What only the ranks together can get wrong is
// negotiate/validate's.
#pragma once

#include "engine/message.h"

namespace hvdlite::api {

// kInvalidArgument or kUnsupported with a sentence, or OK. `members` is the size of the process
// set; splits are filled in for an alltoall that gave none.
Status CheckArguments(engine::Request* request, int members);

// A result that the caller has allocated has the size, dtype and device that it must have. `me` is
// this rank's position among the members.
Status CheckOutput(const engine::Request& request, const TensorView& output, int members, int me);

}  // namespace hvdlite::api
