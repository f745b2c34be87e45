#include "comm/topology.h"

#include <algorithm>

namespace hvdlite::comm {
namespace {

// The children of a position in a tree of `count`, numbered level by level.
std::vector<size_t> ChildrenOf(size_t position, size_t fanout, size_t count) {
  std::vector<size_t> children;
  const size_t first = position * fanout + 1;
  for (size_t child = first; child < std::min(first + fanout, count); ++child)
    children.push_back(child);
  return children;
}

void AddHostAndBelow(const Topology& topology, size_t host, std::vector<int>* members) {
  members->insert(members->end(), topology.hosts[host].begin(), topology.hosts[host].end());
  for (size_t child : ChildrenOf(host, kLeaderFanout, topology.hosts.size()))
    AddHostAndBelow(topology, child, members);
}

void AddMateAndBelow(const std::vector<int>& mates, size_t local, std::vector<int>* members) {
  members->push_back(mates[local]);
  for (size_t child : ChildrenOf(local, kHostFanout, mates.size()))
    AddMateAndBelow(mates, child, members);
}

}  // namespace

Topology MakeTopology(const rendezvous::Roster& roster, std::vector<int> ranks) {
  Topology t;
  std::sort(ranks.begin(), ranks.end());
  t.ranks = std::move(ranks);
  std::vector<int> index_of(roster.hosts.size(), -1);
  for (size_t m = 0; m < t.ranks.size(); ++m) {
    int& index = index_of[static_cast<size_t>(roster.places[static_cast<size_t>(t.ranks[m])].host)];
    if (index < 0) {
      index = static_cast<int>(t.hosts.size());
      t.hosts.emplace_back();
    }
    auto& host = t.hosts[static_cast<size_t>(index)];
    t.host_of.push_back(index);
    t.local_of.push_back(static_cast<int>(host.size()));
    host.push_back(static_cast<int>(m));
  }
  return t;
}

TreeLinks MakeTree(const Topology& topology, int me) {
  TreeLinks tree;
  const size_t host = static_cast<size_t>(topology.host_of[static_cast<size_t>(me)]);
  const std::vector<int>& mates = topology.hosts[host];
  const auto local = static_cast<size_t>(topology.local_of[static_cast<size_t>(me)]);
  for (size_t child : ChildrenOf(local, kHostFanout, mates.size())) {
    tree.children.push_back({mates[child], {}});
    AddMateAndBelow(mates, child, &tree.children.back().speaks_for);
  }
  if (local > 0) {
    tree.parent = mates[ParentOnHost(local)];
    return tree;
  }
  if (host > 0) tree.parent = topology.hosts[(host - 1) / kLeaderFanout][0];
  for (size_t child : ChildrenOf(host, kLeaderFanout, topology.hosts.size())) {
    tree.children.push_back({topology.hosts[child][0], {}});
    AddHostAndBelow(topology, child, &tree.children.back().speaks_for);
  }
  return tree;
}

}  // namespace hvdlite::comm
