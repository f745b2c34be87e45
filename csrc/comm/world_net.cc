// The part of World that only jobs with several hosts need: addresses, the door for links, communicators over links.
#include <algorithm>

#include "comm/hierarchical/hierarchical_communicator.h"
#include "comm/net/net_communicator.h"
#include "comm/world.h"
#include "rendezvous/interfaces.h"

namespace hvdlite::comm {
namespace {

using transport::Transport;
using transport::tcp::Link;
using transport::tcp::LinkListener;
using transport::tcp::MeshPeer;

// Links of different incarnations cannot meet: each opens a door of its own.
constexpr uint32_t kGeneration = 1;

}  // namespace

Status World::TellAddresses(rendezvous::Member* me) {
  return rendezvous::AddressesToTell(rendezvous::ParseInterfaceNames(options_.config->network_interfaces),
                                     &me->addresses);
}

// Listens where ranks of other hosts reach this one, and on no other address; learns where the others listen.
Status World::OpenDoor(rendezvous::Store* store, Deadline deadline) {
  const rendezvous::Member& me = roster_.members[static_cast<size_t>(options_.rank)];
  const size_t other_host = place().host == 0 ? 1 : 0;
  const rendezvous::Member& stranger = roster_.members[static_cast<size_t>(roster_.hosts[other_host].ranks[0])];
  std::string address;
  HVDLITE_RETURN_IF_ERROR(rendezvous::ChooseAddress(stranger, me, &address));
  HVDLITE_RETURN_IF_ERROR(
      LinkListener::Open({address, 0}, std::max(options_.size, 64), options_.secret, options_.log, &listener_));
  listener_->Be(kGeneration, static_cast<uint32_t>(options_.rank));
  const std::string key = options_.store_prefix + "door";
  HVDLITE_RETURN_IF_ERROR(store->Set(key + "/" + std::to_string(options_.rank), listener_->endpoint().ToString()));
  std::vector<std::string> doors;
  HVDLITE_RETURN_IF_ERROR(store->Collect(key, options_.size, deadline, &doors));
  for (const std::string& door : doors) {
    doors_.emplace_back();
    HVDLITE_RETURN_IF_ERROR(transport::tcp::ParseEndpoint(door, &doors_.back()));
  }
  return Status::Ok();
}

Status World::Mesh(uint32_t group, const std::vector<int>& ranks, const Until& until,
                   std::vector<std::unique_ptr<Link>>* links) {
  std::vector<MeshPeer> peers;
  for (int rank : ranks) peers.push_back({rank, {doors_[static_cast<size_t>(rank)]}});
  return transport::tcp::ConnectMesh(group, kGeneration, options_.rank, peers, listener_.get(), options_.secret, until,
                                     links);
}

// Two sets of links: one between all members, for tensors; one along the edges of the negotiation tree, so that a
// message never waits behind a tensor.
Status World::ConnectMesh(Group* group, uint32_t set, const Until& until, std::vector<Transport*>* data,
                          std::vector<Transport*>* edges) {
  const Topology& topology = group->topology;
  std::vector<std::unique_ptr<Link>> links;
  HVDLITE_RETURN_IF_ERROR(Mesh(2 * set, topology.ranks, until, &links));
  for (size_t m = 0; m < links.size(); ++m) {
    (*data)[m] = links[m].get();
    if (links[m] != nullptr) group->transports.push_back(std::move(links[m]));
  }

  std::vector<int> members{group->me};
  if (group->tree.parent >= 0) members.push_back(group->tree.parent);
  for (const TreeLinks::Child& child : group->tree.children) members.push_back(child.member);
  const int my_host = topology.host_of[static_cast<size_t>(group->me)];
  members.erase(std::remove_if(members.begin() + 1, members.end(),
                               [&](int m) { return topology.host_of[static_cast<size_t>(m)] == my_host; }),
                members.end());
  std::vector<int> ranks;
  for (int m : members) ranks.push_back(topology.ranks[static_cast<size_t>(m)]);
  if (ranks.size() == 1) return Status::Ok();
  HVDLITE_RETURN_IF_ERROR(Mesh(2 * set + 1, ranks, until, &links));
  for (size_t i = 1; i < links.size(); ++i) {
    (*edges)[static_cast<size_t>(members[i])] = links[i].get();
    group->transports.push_back(std::move(links[i]));
  }
  return Status::Ok();
}

Status World::BuildBetweenHosts(Group* group, const std::vector<Transport*>& links) {
  const Config& config = *options_.config;
  const Topology& topology = group->topology;
  if (config.communicator == "shm") {
    return Status::InvalidArgument("HVDLITE_COMMUNICATOR=shm, but the " + std::to_string(topology.ranks.size()) +
                                   " ranks of the process set are on " + std::to_string(topology.hosts.size()) +
                                   " hosts. Use auto, net or hierarchical.");
  }
  size_t most = 1;
  for (const auto& host : topology.hosts) most = std::max(most, host.size());
  NetOptions flat_options;
  flat_options.members_per_card = static_cast<int>(most);
  auto flat =
      std::make_unique<NetCommunicator>(group->me, static_cast<int>(topology.ranks.size()), links, flat_options);
  const bool wanted = config.communicator != "net" && config.hierarchical_allreduce != "off";
  if (most == 1 || !topology.homogeneous() || !wanted) {
    group->why = most == 1 ? "net: one member on each host"
                 : wanted  ? "net: the hosts have different numbers of members"
                           : "net: hierarchical allreduce is turned off";
    group->communicator = std::move(flat);
    return Status::Ok();
  }
  const size_t local = static_cast<size_t>(topology.local_of[static_cast<size_t>(group->me)]);
  std::vector<Transport*> rail;
  for (const auto& host : topology.hosts) rail.push_back(links[static_cast<size_t>(host[local])]);
  NetOptions rail_options;
  rail_options.members_per_card = static_cast<int>(most);
  group->outer = std::make_unique<NetCommunicator>(topology.host_of[static_cast<size_t>(group->me)],
                                                   static_cast<int>(rail.size()), rail, rail_options);
  group->inner = std::move(flat);
  group->communicator = std::make_unique<HierarchicalCommunicator>(group->topology, group->me, group->region.get(),
                                                                   group->outer.get(), group->inner.get());
  group->why = "hierarchical: " + std::to_string(most) + " members on each of " +
               std::to_string(topology.hosts.size()) + " hosts";
  return Status::Ok();
}

Status World::Tend() {
  return listener_ == nullptr ? Status::Ok() : listener_->Turn();
}

}  // namespace hvdlite::comm
