// The part of World that only jobs over MPI need.
#include "comm/mpi/communicator.h"
#include "comm/mpi/pipe.h"
#include "comm/net_over_pipes.h"
#include "comm/world.h"

namespace hvdlite::comm {

Status World::JudgeMpi() {
  HVDLITE_RETURN_IF_ERROR(mpi::Decide(roster_, options_.config->cpu_operations, &mpi_));
  if (!mpi_.use) {
    if (!mpi_.why.empty() && options_.rank == 0) options_.log->Info("without MPI: " + mpi_.why);
    return Status::Ok();
  }
  const mpi::Library& library = *options_.mpi.library;
  int rank = -1;
  int size = -1;
  HVDLITE_RETURN_IF_ERROR(
      library.Check(library.Comm_rank(options_.mpi.communicator, &rank), "MPI_Comm_rank"));
  HVDLITE_RETURN_IF_ERROR(
      library.Check(library.Comm_size(options_.mpi.communicator, &size), "MPI_Comm_size"));
  if (rank == options_.rank && size == options_.size) return Status::Ok();
  return Status::InvalidArgument("this process is rank " + std::to_string(options_.rank) + " of " +
                                 std::to_string(options_.size) + ", but MPI says rank " +
                                 std::to_string(rank) + " of " + std::to_string(size));
}

// A message of a member that has turned to other work may wait in its MPI until that member calls
// MPI again.
Status World::TendMpi() {
  const mpi::Library& library = *options_.mpi.library;
  if (library.finalized()) return Status::Ok();
  mpi::StatusScratch ignored;
  int there = 0;
  return library.Check(
      library.Iprobe(options_.rank, 0, options_.mpi.communicator, &there, &ignored), "MPI_Iprobe");
}

Status World::OverMpi(const Group& group, const std::vector<int>& members, size_t per_host, int tag,
                      const Until& until, std::unique_ptr<Communicator>* communicator) {
  std::vector<int> ranks;
  for (int member : members) ranks.push_back(group.topology.ranks[static_cast<size_t>(member)]);
  std::unique_ptr<mpi::Channel> channel;
  HVDLITE_RETURN_IF_ERROR(mpi::Channel::Open(options_.mpi.library, options_.mpi.communicator, ranks,
                                             tag, until, &channel));
  mpi::Options options;
  options.members_per_card = static_cast<int>(per_host);
  options.chunk_bytes = static_cast<size_t>(options_.config->mpi_chunk_bytes);
  options.allreduce = options_.config->mpi_allreduce;
  NetOverPipes::Pipes pipes(ranks.size());
  for (int member = 0; member < channel->size(); ++member) {
    const auto i = static_cast<size_t>(member);
    if (member != channel->me())
      pipes[i] = std::make_unique<mpi::Pipe>(channel.get(), member, ranks[i]);
  }
  auto over_pipes = std::make_unique<NetOverPipes>(channel->me(), std::move(pipes));
  *communicator = std::make_unique<mpi::Communicator>(std::move(channel), std::move(over_pipes),
                                                      std::move(options));
  return Status::Ok();
}

}  // namespace hvdlite::comm
