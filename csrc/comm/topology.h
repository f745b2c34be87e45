// Topology: the hosts of a process set's members, and the tree over which the members negotiate.
// Pure.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "rendezvous/roster.h"

namespace hvdlite::comm {

struct Topology {
  std::vector<int> ranks;  // global ranks, ascending; the position is the member number
  std::vector<std::vector<int>> hosts;  // members by host, in the order of their first members
  std::vector<int> host_of;             // per member: index into hosts
  std::vector<int> local_of;            // per member: position within its host's list
  bool single_host() const { return hosts.size() == 1; }
  // All member numbers.
  std::vector<int> everyone() const {
    std::vector<int> members(ranks.size());
    std::iota(members.begin(), members.end(), 0);
    return members;
  }
  size_t most_on_a_host() const {
    size_t most = 0;
    for (const auto& host : hosts) most = std::max(most, host.size());
    return most;
  }
  // The smallest number of members on a host: the number of local numbers that exist on all hosts.
  int rails() const {
    size_t fewest = ranks.size();
    for (const auto& host : hosts) fewest = std::min(fewest, host.size());
    return static_cast<int>(fewest);
  }
  // Every host has the same number of members.
  bool homogeneous() const {
    for (const auto& host : hosts) {
      if (host.size() != hosts[0].size()) return false;
    }
    return true;
  }
};

Topology MakeTopology(const rendezvous::Roster& roster, std::vector<int> ranks);

// The negotiation tree: a host's first member leads it; the leaders form a tree of fan-out
// kLeaderFanout in the order of hosts, and the members of a host one of fan-out kHostFanout. Depth
// grows with the logarithms of their numbers, and so does what the root has to do.
struct TreeLinks {
  int parent = -1;  // member, -1 at the root (member 0)
  struct Child {
    int member;
    std::vector<int> speaks_for;  // all members below it, itself included
  };
  std::vector<Child> children;
};
constexpr int kLeaderFanout = 4;
constexpr int kHostFanout = 8;  // a host of eight GPUs has no relay
// The parent of a host's member, and the member, by their positions on the host; not of the first.
constexpr size_t ParentOnHost(size_t local) {
  return (local - 1) / kHostFanout;
}
TreeLinks MakeTree(const Topology& topology, int me);

}  // namespace hvdlite::comm
