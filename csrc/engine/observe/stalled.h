// StalledOperation: an operation that some members of a process set have asked for and others have
// not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"

namespace hvdlite::engine {

struct StalledOperation {
  std::string shown;         // "allreduce 'layer3'"
  std::string name;          // "allreduce.layer3", as messages have it
  std::string plain;         // "'layer3'": the program's name, whatever the operation is
  Nanos age = 0;             // since the first member asked
  uint64_t rounds = 0;       // how often all members have performed it before
  std::vector<int> asked;    // global ranks, ascending
  std::vector<int> missing;  // without joined ranks
};

}  // namespace hvdlite::engine
