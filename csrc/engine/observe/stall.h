// Stall inspector: which operations have waited too long, and for whom. DECIDES; pure.
//
// Runs on the root of a process set, over the operations that some members have asked for and
// others have not.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/negotiate/tally.h"

namespace hvdlite::engine {

struct StallOptions {
  Nanos warn_after = 60 * kSecond;
  Nanos shut_down_after = 0;  // 0: never
};

struct StallReport {
  // Empty: nothing is stalled.
  std::string warning;
  // The ranks that are waited for, lowest first; for the verdict and for asking them where they
  // are.
  std::vector<int> missing;
  std::vector<int> waiting;  // the ranks that wait in the oldest operation
  std::string oldest;        // that operation's name, as the user knows it
  Nanos oldest_age = 0;
  bool shut_down = false;  // beyond the last limit
};

// `ranks`: the members' global ranks.
StallReport InspectStalls(const std::vector<Tally*>& pending, const std::vector<int>& ranks,
                          Nanos now, const StallOptions& options);

}  // namespace hvdlite::engine
