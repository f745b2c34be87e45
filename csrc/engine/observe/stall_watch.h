// StallWatch: finds, on the root of a process set, operations that some ranks asked for long ago
// and others have not. Shortly before a limit it asks all ranks where they are. It speaks at the
// limit if all have answered, and otherwise up to a second later.
//
// Thread-safety: for the holder of the turn.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/log.h"
#include "engine/observe/stall.h"
#include "engine/observe/whereabouts.h"
#include "engine/sets.h"

namespace hvdlite::engine {

class StallWatch {
 public:
  // Why a rank is silent, as far as this rank can see: "its process 4711 is stopped". May be empty.
  using WhySilent = std::function<std::string(int rank)>;

  // Borrows `log`.
  StallWatch(const StallOptions& options, const Logger* log, WhySilent why_silent)
      : options_(options), log_(*log), why_silent_(std::move(why_silent)) {}

  // Call a few times a second. `mine`: where this rank's program is, if there is news of it. Fails
  // if a stall has lasted beyond the last limit.
  Status Look(Nanos now, const std::optional<Whereabouts>& mine, const Sets& sets);
  // Forgets a removed set.
  void Forget(int set);

 private:
  struct Watched {
    Nanos next_look = 0;
    Nanos next_warning = 0;
    Nanos asked = 0;  // 0: no question is open
  };
  Status LookAt(ProcessSet* set, Nanos now);
  StallReport Inspect(const ProcessSet& set, Nanos at) const;
  Status Speak(ProcessSet* set, const StallReport& report) const;

  const StallOptions options_;
  const Logger& log_;
  const WhySilent why_silent_;
  std::map<int, Watched> watched_;  // by set id
};

}  // namespace hvdlite::engine
