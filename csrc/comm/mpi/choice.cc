#include "comm/mpi/choice.h"

namespace hvdlite::comm::mpi {

Status Decide(const rendezvous::Roster& roster, const std::string& preference, Choice* choice) {
  const bool demanded = preference == "mpi";
  *choice = Choice();
  if (!demanded && (preference != "auto" || roster.hosts.size() < 2)) return Status::Ok();
  const rendezvous::Member& first = roster.members[0];
  for (const rendezvous::Member& member : roster.members) {
    if (!member.mpi.empty()) continue;
    std::string why = "rank " + std::to_string(member.rank) + " has no MPI";
    if (!member.mpi_absent.empty()) why += ": " + member.mpi_absent;
    if (demanded) {
      return Status::InvalidArgument("HVDLITE_CPU_OPERATIONS=mpi, but " + why +
                                     ". Without MPI: HVDLITE_CPU_OPERATIONS=net");
    }
    // MPI does not matter unless it has started the job.
    choice->why = member.mpi_absent.empty() ? "" : why;
    return Status::Ok();
  }
  for (const rendezvous::Member& member : roster.members) {
    if (member.mpi == first.mpi) continue;
    return Status::InvalidArgument(
        "rank 0 has " + first.mpi + " and rank " + std::to_string(member.rank) + " has " +
        member.mpi +
        ": all ranks need the same MPI. mpi4py takes the one that MPI4PY_MPIABI and "
        "LD_LIBRARY_PATH lead to; or without MPI: HVDLITE_CPU_OPERATIONS=net");
  }
  choice->use = true;
  choice->why = first.mpi;
  return Status::Ok();
}

}  // namespace hvdlite::comm::mpi
