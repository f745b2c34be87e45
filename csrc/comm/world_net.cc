// The part of World that only jobs with several hosts need: addresses, the listener for links,
// communicators over links.
#include <algorithm>

#include "comm/hierarchical/communicator.h"
#include "comm/link_checks.h"
#include "comm/net/communicator.h"
#include "comm/world.h"
#include "rendezvous/interfaces.h"
#include "rendezvous/pairs.h"
#include "transport/checked.h"
#include "transport/striped.h"

namespace hvdlite::comm {

using transport::Transport;
using transport::tcp::Endpoint;
using transport::tcp::Link;
using transport::tcp::LinkIdentity;
using transport::tcp::LinkListener;
using transport::tcp::MeshPeer;

Status World::TellAddresses(rendezvous::Member* me) {
  return rendezvous::AddressesToTell(
      rendezvous::ParseInterfaceNames(options_.config->network_interfaces), &me->addresses);
}

// Listens at the address where ranks of other hosts reach this one, and at no other. Learns where
// the others listen.
Status World::OpenDoor(rendezvous::Store* store, Deadline deadline) {
  const rendezvous::Member& me = roster_.members[static_cast<size_t>(options_.rank)];
  const size_t other_host = place().host == 0 ? 1 : 0;
  const rendezvous::Member& stranger =
      roster_.members[static_cast<size_t>(roster_.hosts[other_host].ranks[0])];
  std::string address;
  HVDLITE_RETURN_IF_ERROR(rendezvous::ChooseAddress(stranger, me, &address));
  const LinkIdentity identity{static_cast<uint32_t>(options_.rank), options_.generation,
                              options_.secret, options_.config->tcp_congestion == "system"};
  HVDLITE_RETURN_IF_ERROR(LinkListener::Open({address, 0}, std::max(options_.size, 64), identity,
                                             options_.log, &listener_));
  std::string doors = listener_->endpoint().ToString();
  HVDLITE_RETURN_IF_ERROR(OpenInterfaces(address, &doors));
  return MeetAtDoors(store, doors, deadline);
}

// If the user names several interfaces, listens at each of them. Adds their doors to *doors.
Status World::OpenInterfaces(const std::string& door, std::string* doors) {
  const auto names = rendezvous::ParseInterfaceNames(options_.config->network_interfaces);
  if (names.size() < 2) return Status::Ok();
  std::vector<rendezvous::InterfaceAddress> all, selected;
  HVDLITE_RETURN_IF_ERROR(rendezvous::ListAddresses(&all));
  HVDLITE_RETURN_IF_ERROR(rendezvous::SelectAddresses(all, names, &selected));
  const auto mine = rendezvous::OneOfEach(selected, door);
  if (mine.size() < 2) return Status::Ok();
  for (size_t i = 0; i < mine.size(); ++i) {
    const bool bound = rendezvous::SharesSubnet(mine, i);
    Endpoint at;
    HVDLITE_RETURN_IF_ERROR(
        listener_->AlsoAt(mine[i].address, bound ? mine[i].interface : "", &at));
    interfaces_.emplace_back();
    interfaces_.back().origin = {mine[i].interface, mine[i].address, bound};
    *doors += " " + at.ToString();
  }
  return Status::Ok();
}

Status World::MeetAtDoors(rendezvous::Store* store, const std::string& mine, Deadline deadline) {
  const std::string key = options_.store_prefix + "door";
  HVDLITE_RETURN_IF_ERROR(store->Set(key + "/" + std::to_string(options_.rank), mine));
  std::vector<std::string> all;
  const Status met = store->Collect(key, options_.size, deadline, &all);
  if (met.code() == StatusCode::kTimeout) return WhoIsLate(options_, store, "door");
  HVDLITE_RETURN_IF_ERROR(met);
  for (std::string_view doors : all) {
    doors_.emplace_back();
    while (!doors.empty()) {
      const size_t end = std::min(doors.find(' '), doors.size());
      doors_.back().emplace_back();
      HVDLITE_RETURN_IF_ERROR(
          transport::tcp::ParseEndpoint(doors.substr(0, end), &doors_.back().back()));
      doors.remove_prefix(std::min(end + 1, doors.size()));
    }
    if (doors_.back().empty()) return Status::Io("a rank does not say where it listens");
  }
  return Status::Ok();
}

// The addresses of the rank's interfaces, with prefix lengths, in the order of its doors.
std::vector<std::string> World::InterfacesOf(int rank) const {
  std::vector<std::string> found;
  const auto& doors = doors_[static_cast<size_t>(rank)];
  for (size_t i = 1; i < doors.size(); ++i) {
    found.push_back(doors[i].host);
    for (const std::string& text : roster_.members[static_cast<size_t>(rank)].addresses) {
      if (text.substr(0, text.find('/')) == doors[i].host) found.back() = text;
    }
  }
  return found;
}

// The links for tensors with that rank: one, or one for each pair of interfaces.
std::vector<MeshPeer> World::PeersFor(int rank) const {
  const auto& theirs = doors_[static_cast<size_t>(rank)];
  const bool here = theirs[0].host == doors_[static_cast<size_t>(options_.rank)][0].host;
  std::vector<MeshPeer> peers;
  const bool lower = options_.rank < rank;
  const auto pairs = rendezvous::PairInterfaces(InterfacesOf(lower ? options_.rank : rank),
                                                InterfacesOf(lower ? rank : options_.rank));
  if (here || pairs.size() < 2) return {{rank, {theirs[0]}}};
  for (const auto& [of_lower, of_higher] : pairs) {
    const Interface& mine = interfaces_[lower ? of_lower : of_higher];
    peers.push_back({rank,
                     {theirs[1 + (lower ? of_higher : of_lower)]},
                     static_cast<uint32_t>(peers.size()),
                     mine.origin});
  }
  return peers;
}

// The group owns the link, with check words if its bytes leave this machine.
Transport* World::Keep(std::unique_ptr<Link> link, Group* group) const {
  const Endpoint& mine = doors_[static_cast<size_t>(options_.rank)][0];
  const Endpoint& theirs = doors_[static_cast<size_t>(link->peer())][0];
  if (WantsChecks(options_.config->link_checks, mine.host, theirs.host)) {
    group->transports.push_back(std::make_unique<transport::Checked>(std::move(link)));
  } else {
    group->transports.push_back(std::move(link));
  }
  return group->transports.back().get();
}

Status World::ConnectTensors(Group* group, uint32_t mesh, const Until& until,
                             std::vector<Transport*>* data) {
  std::vector<MeshPeer> peers;
  for (int rank : group->topology.ranks) {
    for (MeshPeer& peer : PeersFor(rank)) peers.push_back(std::move(peer));
  }
  std::vector<std::unique_ptr<Link>> links;
  HVDLITE_RETURN_IF_ERROR(transport::tcp::ConnectMesh(mesh, peers, listener_.get(), until, &links));
  size_t next = 0;
  for (size_t m = 0; m < data->size(); ++m) {
    std::vector<Transport*> lanes;
    std::vector<transport::Traffic*> traffic;
    for (; next < peers.size() && peers[next].rank == group->topology.ranks[m]; ++next) {
      if (links[next] != nullptr) lanes.push_back(Keep(std::move(links[next]), group));
      for (Interface& one : interfaces_) {
        if (one.origin.interface == peers[next].origin.interface) traffic.push_back(&one.traffic);
      }
    }
    if (lanes.size() > 1) {
      group->transports.push_back(
          std::make_unique<transport::Striped>(std::move(lanes), std::move(traffic)));
      (*data)[m] = group->transports.back().get();
    } else if (lanes.size() == 1) {
      (*data)[m] = lanes[0];
    }
  }
  return Status::Ok();
}

// Makes two sets of links. One connects all members, for tensors, unless those go over MPI. The
// other follows the edges of the negotiation tree, so that a message never waits behind a tensor.
Status World::ConnectMesh(Group* group, uint32_t set, const Until& until,
                          std::vector<Transport*>* data, std::vector<Transport*>* edges) {
  const Topology& topology = group->topology;
  if (!mpi_.use) HVDLITE_RETURN_IF_ERROR(ConnectTensors(group, 2 * set, until, data));

  std::vector<int> members{group->me};
  if (group->tree.parent >= 0) members.push_back(group->tree.parent);
  for (const TreeLinks::Child& child : group->tree.children) members.push_back(child.member);
  const int my_host = topology.host_of[static_cast<size_t>(group->me)];
  members.erase(
      std::remove_if(members.begin() + 1, members.end(),
                     [&](int m) { return topology.host_of[static_cast<size_t>(m)] == my_host; }),
      members.end());
  std::vector<MeshPeer> peers;
  for (int m : members) {
    const int rank = topology.ranks[static_cast<size_t>(m)];
    peers.push_back({rank, {doors_[static_cast<size_t>(rank)][0]}});
  }
  if (peers.size() == 1) return Status::Ok();
  std::vector<std::unique_ptr<Link>> links;
  HVDLITE_RETURN_IF_ERROR(
      transport::tcp::ConnectMesh(2 * set + 1, peers, listener_.get(), until, &links));
  for (size_t i = 1; i < links.size(); ++i)
    (*edges)[static_cast<size_t>(members[i])] = Keep(std::move(links[i]), group);
  return Status::Ok();
}

Status World::BuildBetweenHosts(Group* group, uint32_t set, const std::vector<Transport*>& links,
                                const Until& until) {
  const Config& config = *options_.config;
  const Topology& topology = group->topology;
  if (config.cpu_operations == "shm") {
    return Status::InvalidArgument(
        "HVDLITE_CPU_OPERATIONS=shm, but the " + std::to_string(topology.ranks.size()) +
        " ranks of the process set are on " + std::to_string(topology.hosts.size()) +
        " hosts. Use auto, net or mpi.");
  }
  const size_t most = topology.most_on_a_host();
  // Makes a communicator among some members, including this one, over what connects hosts.
  // `per_host`: how many of them a host has.
  const auto among = [&](const std::vector<int>& members, size_t per_host, int tag,
                         std::unique_ptr<Communicator>* made) {
    if (mpi_.use) return OverMpi(*group, members, per_host, tag, until, made);
    std::vector<Transport*> theirs;
    for (int member : members) theirs.push_back(links[static_cast<size_t>(member)]);
    net::Options options;
    options.members_per_card = static_cast<int>(per_host);
    options.force = AlgorithmNamed(config.debug_net_algorithm);
    const auto me = std::find(members.begin(), members.end(), group->me) - members.begin();
    *made = std::make_unique<net::Communicator>(
        static_cast<int>(me), static_cast<int>(members.size()), std::move(theirs), options);
    return Status::Ok();
  };
  std::unique_ptr<Communicator> flat;
  HVDLITE_RETURN_IF_ERROR(among(topology.everyone(), most, static_cast<int>(2 * set), &flat));
  const std::string carrier = mpi_.use ? "mpi (" + mpi_.why + ")" : "net";
  const std::string without = mpi_.use || mpi_.why.empty() ? "" : "; without MPI: " + mpi_.why;
  const bool wanted = config.cpu_operations != "net" && config.hierarchical_allreduce != "off";
  if (most == 1 || !wanted) {
    group->why =
        carrier +
        (most == 1 ? ": one member on each host" : ": hierarchical allreduce is turned off") +
        without;
    group->communicator = std::move(flat);
    return Status::Ok();
  }
  const int local = topology.local_of[static_cast<size_t>(group->me)];
  if (local < topology.rails()) {
    std::vector<int> rail;
    for (const auto& host : topology.hosts) rail.push_back(host[static_cast<size_t>(local)]);
    HVDLITE_RETURN_IF_ERROR(among(rail, 1, static_cast<int>(2 * set + 1), &group->outer));
  }
  group->inner = std::move(flat);
  auto made = std::make_unique<hierarchical::Communicator>(
      group->topology, group->me, group->region.get(), group->outer.get(), group->inner.get());
  made->ReduceInPlace(SharedTensorsOf(*group), static_cast<size_t>(config.shm_small_bytes));
  group->communicator = std::move(made);
  group->why = std::string("hierarchical: ") + (topology.homogeneous() ? "" : "up to ") +
               std::to_string(most) + " members on each of " +
               std::to_string(topology.hosts.size()) + " hosts, " + carrier + " between them" +
               without;
  return Status::Ok();
}

Status World::Tend() {
  if (mpi_.use) HVDLITE_RETURN_IF_ERROR(TendMpi());
  return listener_ == nullptr ? Status::Ok() : listener_->Turn();
}

}  // namespace hvdlite::comm
