#include "engine/observe/vigil.h"

#include <poll.h>

#include "base/process_state.h"

namespace hvdlite::engine {

namespace {

// `why`: what the kernel says of the process; may be empty.
Status Frozen(int rank, Nanos silent, const std::string& why) {
  return Status::PeerLost(
      Cause::kSilent, {rank},
      "rank " + std::to_string(rank) + " has given no sign of life for " +
          std::to_string(silent / kSecond) + " s: " +
          (why.empty() ? "its process is stopped (SIGSTOP, a debugger), starved of memory or "
                         "hangs in the kernel, or its host is gone"
                       : why) +
          ". HVDLITE_HEARTBEAT_SECONDS sets the limit; 0 turns this check off.");
}

Status Interrupted(int me, const transport::Transport& link, Nanos outage) {
  return Status::PeerLost(
      Cause::kNetwork, {link.peer(), me},
      link.Name() + " is interrupted: bytes are sent, but nothing has been acknowledged for " +
          std::to_string(outage / kSecond) +
          " s. The network between the two hosts is down or loses packets of some size (an MTU "
          "that differs on the way?), or that host is gone. HVDLITE_HEARTBEAT_SECONDS sets the "
          "limit; 0 turns this check off.");
}

}  // namespace

void Vigil::Begin(Nanos now) {
  Look(now);
  outages_.Look(now);
}

void Vigil::Look(Nanos now) {
  silences_.Look(now);
  remote_silences_.Look(now);
}

Status Vigil::Check(Nanos now, Nanos limit, comm::World* world, const Sets& sets) {
  // Between hosts the edges of the world's negotiation tree carry heartbeats. A rank sends them
  // even if it does not check the others'.
  Agreement& agreement = *sets.world().agreement;
  if (world->multi_host()) agreement.SendAlive();
  if (limit <= 0) return Status::Ok();
  HVDLITE_RETURN_IF_ERROR(CheckHost(limit, world));
  if (!world->multi_host()) return Status::Ok();
  HVDLITE_RETURN_IF_ERROR(CheckOutages(now, LongestOutage(limit), *world, sets));
  for (const Agreement::Heard& heard : agreement.LastHeard()) {
    const int rank = heard.from->peer();
    const Nanos silent =
        remote_silences_.Of(rank, static_cast<uint64_t>(heard.at), outages_.Open(heard.from));
    if (silent >= limit) return Frozen(rank, silent, WhyItRests(*world, rank));
  }
  return Status::Ok();
}

std::string Vigil::WhyItRests(const comm::World& world, int rank) {
  const rendezvous::Roster& roster = world.roster();
  const auto index = static_cast<size_t>(rank);
  if (roster.places[index].host != world.place().host) return "";
  const int64_t pid = roster.members[index].pid;
  return hvdlite::WhyItRests(StateOf(pid), pid);
}

// While links are being made no thread drives, so nothing is received. But heartbeats are sent,
// earlier decisions still reach all members, and the world's links end with their processes.
Status Vigil::BeatAndLook(comm::World* world, const Sets& sets) {
  world->segment()
      .line(world->place().local_rank)
      .heartbeat.fetch_add(1, std::memory_order_seq_cst);
  for (const ProcessSetPtr& set : sets.mine()) set->agreement->Flush();
  if (world->segment().aborted()) return world->segment().abort_status();
  for (const auto& transport : sets.world().group->transports) {
    pollfd link{transport->fd(), POLLRDHUP, 0};
    if (link.fd < 0 || poll(&link, 1, 0) <= 0) continue;
    return Status::PeerLost(Cause::kClosed, {transport->peer()},
                            "rank " + std::to_string(transport->peer()) +
                                " closed the connection: its process has ended or given up");
  }
  return Status::Ok();
}

Status Vigil::CheckHost(Nanos limit, comm::World* world) {
  transport::shm::HostSegment& segment = world->segment();
  const rendezvous::Place& place = world->place();
  const rendezvous::Host& host = world->roster().hosts[static_cast<size_t>(place.host)];
  for (int local = 0; local < segment.local_size(); ++local) {
    if (local == place.local_rank || segment.line(local).left.load() != 0) continue;
    const int rank = host.ranks[static_cast<size_t>(local)];
    const Nanos silent =
        silences_.Of(rank, segment.line(local).heartbeat.load(std::memory_order_relaxed));
    if (silent >= limit) return Frozen(rank, silent, WhyItRests(*world, rank));
  }
  return Status::Ok();
}

// Checks all links. One that carries tensors may lose large packets while the negotiation's small
// ones get through.
Status Vigil::CheckOutages(Nanos now, Nanos limit, const comm::World& world, const Sets& sets) {
  outages_.Look(now);
  for (const ProcessSetPtr& set : sets.mine()) {
    for (const auto& link : set->group->transports) {
      const Nanos outage = outages_.Of(link.get(), link->acknowledged());
      if (outage >= limit) return Interrupted(world.rank(), *link, outage);
    }
  }
  return Status::Ok();
}

}  // namespace hvdlite::engine
