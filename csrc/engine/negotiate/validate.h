// Do the members of a process set mean the same operation? DECIDES; pure.
#pragma once

#include <vector>

#include "base/status.h"
#include "engine/negotiate/tally.h"

namespace hvdlite::engine {

// What must agree, agrees. (First dimensions of allgather and alltoall, and splits, may differ.)
bool Agrees(const Request& a, const Request& b);

// OK, or a kMismatch that names the operation, the ranks and what each of them said, and what to do
// about it. `ranks` are the members' global ranks. Call when every member is present.
Status Validate(const Tally& tally, const std::vector<int>& ranks);

// "rank 3", "ranks 0, 1 and 3", "ranks 0-7 and 9": for people.
std::string RankList(std::vector<int> ranks);

}  // namespace hvdlite::engine
