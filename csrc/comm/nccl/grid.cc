#include "comm/nccl/grid.h"

namespace hvdlite::comm::nccl {

Grid MakeGrid(const Topology& topology, int me, bool wanted) {
  Grid grid;
  if (!wanted) return grid;
  const size_t most = topology.most_on_a_host();
  const bool several = most > 1 && !topology.single_host();
  if (!several || !topology.homogeneous()) {
    grid.why = std::string("not by hosts, although that was requested: ") +
               (topology.single_host() ? "all members are on one host"
                : most == 1            ? "there is one member on each host"
                                       : "the hosts have different numbers of members");
    return grid;
  }
  grid.used = true;
  grid.hosts = static_cast<int>(topology.hosts.size());
  grid.places = static_cast<int>(most);
  grid.host = topology.host_of[static_cast<size_t>(me)];
  grid.place = topology.local_of[static_cast<size_t>(me)];
  grid.first_of_host = topology.hosts[static_cast<size_t>(grid.host)][0];
  grid.first_of_place = topology.hosts[0][static_cast<size_t>(grid.place)];
  grid.why = "allreduce by hosts: inside each of " + std::to_string(grid.hosts) +
             " hosts, between the members of each of " + std::to_string(grid.places) +
             " places, and inside again";
  return grid;
}

}  // namespace hvdlite::comm::nccl
