// ResultWatch: looks at what reductions take and give. It finds the first number that is not finite
// (if the program asks for it), and members of a process set that have different results.
//
// Thread-safety: for the holder of the turn.
#pragma once

#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "engine/execute/running.h"
#include "engine/observe/nan_watch.h"
#include "engine/sets.h"

namespace hvdlite::engine {

class ResultWatch {
 public:
  // Borrows `log`.
  ResultWatch(const Config& config, int rank, const Logger* log);

  // Before data of the batch move.
  void Began(const Running& running);
  // When results are there. A sample of some of them goes to the set's root.
  void Ended(ProcessSet* set, const Running& running);
  // Call a few times a second. Warns of members with different results, or fails.
  Status Look(const Sets& sets) const;

 private:
  const bool samples_;
  const bool fails_;
  const Logger& log_;
  NanWatch nan_watch_;
};

}  // namespace hvdlite::engine
