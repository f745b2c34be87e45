// Is a call right as seen from this rank alone? Pure. What only the ranks together can get wrong is negotiate/validate's.
#pragma once

#include "engine/message.h"

namespace hvdlite::api {

// kInvalidArgument or kUnsupported with a sentence, or OK. `members` and `root_member` (broadcast) describe the process
// set; splits are filled in for an alltoall that gave none.
Status CheckArguments(engine::Request* request, int members);

}  // namespace hvdlite::api
