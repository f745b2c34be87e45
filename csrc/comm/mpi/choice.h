// Choice: whether the job uses MPI. DECIDES, from the descriptions of all ranks, so all decide
// alike.
#pragma once

#include <string>

#include "base/status.h"
#include "rendezvous/roster.h"

namespace hvdlite::comm::mpi {

struct Choice {
  bool use = false;
  std::string why;  // "Open MPI v5.0.11", or why MPI is not used
};

// `preference`: HVDLITE_CPU_OPERATIONS. kInvalidArgument: MPI was demanded, but the named rank
// cannot use it, or two ranks have different ones.
Status Decide(const rendezvous::Roster& roster, const std::string& preference, Choice* choice);

}  // namespace hvdlite::comm::mpi
