// Stall inspector: finds operations that have waited too long, and the ranks they wait for.
// DECIDES; pure.
//
// Runs on the root of a process set, over the operations that some but not all members have asked
// for.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/negotiate/tally.h"
#include "engine/observe/stalled.h"

namespace hvdlite::engine {

struct StallOptions {
  Nanos warn_after = 60 * kSecond;
  Nanos shut_down_after = 0;  // 0: never
};

struct StallReport {
  // Empty: nothing is stalled.
  std::string warning;
  // First those that are stalled, of these first the one that most ranks have asked for; then those
  // that have waited for less long.
  std::vector<StalledOperation> operations;
  bool shut_down = false;  // the last limit has passed
};

// `ranks`: the members' global ranks.
StallReport InspectStalls(const std::vector<Tally*>& pending, const std::vector<int>& ranks,
                          Nanos now, const StallOptions& options);

// Why a job ends because of members that leave it, after so many steps of all; see DecideEnd.
std::string WhyItEnds(const std::vector<int>& leaving, const std::vector<Tally*>& pending,
                      const std::vector<int>& ranks, uint64_t steps);

}  // namespace hvdlite::engine
