// StallWatch: finds, on the root of a process set, operations that some ranks asked for long ago
// and others have not. It asks all ranks where they are, and warns a second later, with the
// answers.
//
// Thread-safety: for the holder of the turn.
#pragma once

#include <map>

#include "base/log.h"
#include "engine/observe/question.h"
#include "engine/observe/stall.h"
#include "engine/sets.h"

namespace hvdlite::engine {

class StallWatch {
 public:
  // Borrows `log`.
  StallWatch(const StallOptions& options, const Logger* log) : options_(options), log_(*log) {}

  // Call a few times a second. `answer`: where this rank's program is, if it was asked. `idle`: how
  // long it has submitted nothing. Fails if a stall has lasted beyond the last limit.
  Status Look(Nanos now, const std::string& answer, Nanos idle, const Sets& sets);
  // Forgets a removed set.
  void Forget(int set);

 private:
  struct Watched {
    Nanos next_check = 0;
    StallReport report;
    Nanos speak_at = 0;  // 0: no stall is known
  };
  Status LookAt(ProcessSet* set, Nanos now);
  Status Speak(const StallReport& report, const std::map<int, Agreement::Answer>& answers) const;

  const StallOptions options_;
  const Logger& log_;
  std::map<int, Watched> watched_;  // by set id
};

}  // namespace hvdlite::engine
