// Choice: whether the job uses MPI. DECIDES, from what all ranks have said of themselves, so all
// decide alike.
#pragma once

#include <string>

#include "base/status.h"
#include "rendezvous/roster.h"

namespace hvdlite::comm::mpi {

struct Choice {
  bool use = false;
  std::string why;  // "Open MPI v5.0.11", or why not
};

// `wish`: HVDLITE_CPU_OPERATIONS. kInvalidArgument: MPI was demanded, and a rank, which is named,
// cannot; or two ranks have different ones.
Status Decide(const rendezvous::Roster& roster, const std::string& wish, Choice* choice);

}  // namespace hvdlite::comm::mpi
