// Verdict: one line that says which rank holds up a stalled operation, and where it is. DECIDES;
// pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/observe/stalled.h"
#include "engine/observe/whereabouts.h"

namespace hvdlite::engine {

struct StallFacts {
  std::vector<StalledOperation> operations;  // the verdict is about the first one
  std::map<int, Whereabouts> said;           // by rank; a rank that is not here has not answered
  // By rank: what is known of a rank that has not answered: "its process 4711 is stopped".
  std::map<int, std::string> why_silent;
};

// "rank 2 has not asked for allreduce 'layer3' for 12 s: it is in train.py:88 (evaluate) and has
// submitted nothing for 14 s; ranks 0, 1 and 3 wait in train.py:61".
std::string DecideStall(const StallFacts& facts);

// Why a job ends because of members that leave it. All members have made `steps` steps; up to 1:
// that is unknown. The ranks `waiting`, which may be empty, have asked for `operation`.
std::string DecideEnd(const std::vector<int>& leaving, uint64_t steps,
                      const std::vector<int>& waiting, const std::string& operation);

}  // namespace hvdlite::engine
