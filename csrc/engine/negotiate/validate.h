// Checks whether the members of a process set mean the same operation. DECIDES; pure.
#pragma once

#include <vector>

#include "base/status.h"
#include "engine/negotiate/tally.h"

namespace hvdlite::engine {

// Whether the properties that must agree do agree. (First dimensions of allgather and alltoall, and
// splits, may differ.)
bool Agrees(const Request& a, const Request& b);

// Returns OK, or a kMismatch that names the operation, the ranks, the request of each of them, and
// what to do. `ranks` are the members' global ranks. Call when every member is present.
Status Validate(const Tally& tally, const std::vector<int>& ranks);

// A list for messages: "rank 3", "ranks 0, 1 and 3", "ranks 0-7 and 9".
std::string RankList(std::vector<int> ranks);

}  // namespace hvdlite::engine
