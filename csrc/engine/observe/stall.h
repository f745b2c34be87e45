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

namespace hvdlite::engine {

struct StallOptions {
  Nanos warn_after = 60 * kSecond;
  Nanos shut_down_after = 0;  // 0: never
};

struct StallReport {
  // Empty: nothing is stalled.
  std::string warning;
  // The missing ranks, lowest first. The verdict names them, and they are asked where they are.
  std::vector<int> missing;
  std::vector<int> waiting;  // the ranks that wait in the oldest operation
  std::string oldest;        // that operation's name in the program
  Nanos oldest_age = 0;
  bool shut_down = false;  // the last limit has passed
};

// `ranks`: the members' global ranks.
StallReport InspectStalls(const std::vector<Tally*>& pending, const std::vector<int>& ranks,
                          Nanos now, const StallOptions& options);

}  // namespace hvdlite::engine
