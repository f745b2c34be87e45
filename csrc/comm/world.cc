#include "comm/world.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/fd.h"
#include "comm/processors.h"
#include "comm/self/communicator.h"
#include "comm/shm/communicator.h"
#include "rendezvous/host_id.h"

namespace hvdlite::comm {
namespace {

using rendezvous::Member;
using transport::Transport;
using transport::shm::Neighbours;
using transport::shm::Pipe;

// Slots are cut into shares of whole cache lines, so a chunk needs at least one per member.
size_t ChunkBytes(const Config& config, size_t members) {
  const size_t least = members * 64;
  const size_t chunk = std::max(static_cast<size_t>(config.shm_chunk_bytes), least);
  return (chunk + 4095) / 4096 * 4096;
}

// "rank 1, rank 3"
std::string Named(const std::vector<int>& ranks) {
  std::string who;
  for (const int rank : ranks) who += (who.empty() ? "rank " : ", rank ") + std::to_string(rank);
  return who;
}

// Whether the rank has set its `what` in the store.
bool HasSaid(const WorldOptions& options, rendezvous::Store* store, int rank,
             const std::string& what) {
  std::string ignored;
  const std::string key = options.store_prefix + what + "/" + std::to_string(rank);
  return store->Get(key, Deadline::After(kMillisecond), &ignored).ok();
}

}  // namespace

Status WhoIsLate(const WorldOptions& options, rendezvous::Store* store, const std::string& what) {
  std::vector<int> uncalled, silent;
  for (int rank = 0; rank < options.size; ++rank) {
    if (HasSaid(options, store, rank, what)) continue;
    // The store notes that a rank has joined, whose message is shorter than what it says next.
    const bool called =
        HasSaid(options, store, rank, "joined") || HasSaid(options, store, rank, "member");
    (called ? silent : uncalled).push_back(rank);
  }
  std::string text;
  if (!uncalled.empty()) {
    text = Named(uncalled) + " did not call hvd.init() within " + StartTimeout(options) +
           " s of the other ranks. Look at its output; if it only needs longer, raise "
           "HVDLITE_START_TIMEOUT.";
  }
  if (uncalled.empty() || !silent.empty()) {
    text += text.empty() ? "" : " ";
    // None: the last one has said it just now.
    text += (silent.empty() ? "the last rank" : Named(silent)) +
            " called hvd.init(), but did not say within " + StartTimeout(options) +
            " s where other hosts can connect to it. Look at its output. If it waits there for the "
            "job's store: does the network lose packets of some size (an MTU that differs on the "
            "way)? If it only needs longer, raise HVDLITE_START_TIMEOUT.";
  }
  return Status::Timeout(text);
}

std::string StartTimeout(const WorldOptions& options) {
  char seconds[32];
  snprintf(seconds, sizeof(seconds), "%g", options.seconds);
  return seconds;
}

Status World::Join(const WorldOptions& options, rendezvous::Store* store, Deadline deadline,
                   std::unique_ptr<World>* out) {
  std::unique_ptr<World> world(new World(options));
  const std::string prefix = options.store_prefix;
  Member me;
  me.rank = options.rank;
  me.slot = options.slot;
  me.host_id = rendezvous::HostId(options.config->host_id);
  // Uses sockets inside the host, too, as if each rank had a host of its own.
  if (options.config->cpu_operations == "net") me.host_id += "#rank" + std::to_string(options.rank);
  me.pid = getpid();
  me.release = options.release;
  me.settings = options.config->Alike();
  me.processors = AllowedProcessors();
  if (options.mpi.library != nullptr) me.mpi = options.mpi.name;
  me.mpi_absent = options.mpi.absent;

  std::vector<Member> members;
  if (options.size == 1) {
    members.push_back(me);
  } else {
    std::string bytes;
    HVDLITE_RETURN_IF_ERROR(world->TellAddresses(&me));
    HVDLITE_RETURN_IF_ERROR(rendezvous::EncodeMember(me, &bytes));
    HVDLITE_RETURN_IF_ERROR(store->Set(prefix + "member/" + std::to_string(options.rank), bytes));
    std::vector<std::string> all;
    const Status met = store->Collect(prefix + "member", options.size, deadline, &all);
    if (met.code() == StatusCode::kTimeout) return WhoIsLate(options, store, "member");
    if (!met.ok()) return met;
    for (const std::string& each : all) {
      members.emplace_back();
      HVDLITE_RETURN_IF_ERROR(rendezvous::DecodeMember(each, &members.back()));
    }
  }
  HVDLITE_RETURN_IF_ERROR(rendezvous::MakeRoster(std::move(members), &world->roster_));
  HVDLITE_RETURN_IF_ERROR(world->JudgeMpi());
  const bool multi_host = world->roster_.hosts.size() > 1;
  const rendezvous::Place& place = world->place();
  const std::vector<int>& mates = world->roster_.hosts[static_cast<size_t>(place.host)].ranks;
  std::vector<std::string_view> masks;
  for (int mate : mates)
    masks.push_back(world->roster_.members[static_cast<size_t>(mate)].processors);
  world->processors_ = CountProcessors(masks, ProcessorQuota());
  world->my_processors_ =
      CountProcessors({world->roster_.members[static_cast<size_t>(options.rank)].processors}, 0);

  const std::string secret(options.secret.begin(), options.secret.end());
  const Until until(deadline, [store] { return store == nullptr ? Status::Ok() : store->Look(); });
  const std::string host_key = prefix + "host/" + std::to_string(mates[0]);
  if (place.local_rank == 0) {
    int listener = -1;
    std::string name;
    HVDLITE_RETURN_IF_ERROR(Neighbours::Open(&listener, &name));
    if (mates.size() > 1) HVDLITE_RETURN_IF_ERROR(store->Set(host_key, name));
    HVDLITE_RETURN_IF_ERROR(
        Neighbours::Host(listener, secret, mates, multi_host, until, &world->neighbours_));
  } else {
    std::string name;
    HVDLITE_RETURN_IF_ERROR(store->Get(host_key, deadline, &name));
    HVDLITE_RETURN_IF_ERROR(Neighbours::Join(name, secret, place.local_rank, mates, multi_host,
                                             until, &world->neighbours_));
  }
  HVDLITE_RETURN_IF_ERROR(world->ShareGradients(until));
  world->bells_ = std::make_unique<transport::shm::Doorbells>(&world->segment(), place.local_rank,
                                                              world->neighbours_->eventfds());
  world->next_region_ = world->segment().regions_begin();
  if (multi_host) {
    // Report the failure before the host's sockets close. Otherwise the host's other ranks would
    // blame this one.
    const Status opened = world->OpenDoor(store, deadline);
    if (!opened.ok()) return store->Fail(opened);
  }
  *out = std::move(world);
  return Status::Ok();
}

World::~World() = default;

Status World::ShareGradients(const Until& until) {
  if (!options_.config->gradient_pool) return Status::Ok();
  const int me = place().local_rank;
  pool::Segment* const own = options_.gradients;
  std::vector<Fd> given;
  HVDLITE_RETURN_IF_ERROR(neighbours_->Share(own == nullptr ? -1 : own->fd(), until, &given));
  gradients_ = std::make_unique<pool::Peers>(static_cast<int>(given.size()), me, own);
  for (size_t rank = 0; rank < given.size(); ++rank) {
    shares_gradients_.push_back(given[rank].valid());
    if (static_cast<int>(rank) == me) {
      shares_gradients_.back() = own != nullptr;
    } else if (given[rank].valid()) {
      const Status mapped = gradients_->Map(static_cast<int>(rank), given[rank].get());
      if (mapped.ok()) continue;
      options_.log->Warning("gradients are not reduced in place: " + mapped.message());
      gradients_->GiveUp();
    }
  }
  return Status::Ok();
}

shm::SharedTensors World::SharedTensorsOf(const Group& group) const {
  if (gradients_ == nullptr) return {};
  shm::SharedTensors shared{gradients_.get(), {}};
  const Topology& topology = group.topology;
  const int host = topology.host_of[static_cast<size_t>(group.me)];
  for (int member : topology.hosts[static_cast<size_t>(host)]) {
    const int rank = topology.ranks[static_cast<size_t>(member)];
    const int local = roster_.places[static_cast<size_t>(rank)].local_rank;
    if (!shares_gradients_[static_cast<size_t>(local)]) return {};
    shared.local_ranks.push_back(local);
  }
  return shared;
}

// Maps the set's part of the host's memory, and makes the pipes between its leader and the others.
Status World::ConnectHost(Group* group, std::vector<std::unique_ptr<Transport>>* pipes) {
  const Topology& topology = group->topology;
  const size_t host = static_cast<size_t>(topology.host_of[static_cast<size_t>(group->me)]);
  const std::vector<int>& mates = topology.hosts[host];
  const size_t chunk = ChunkBytes(*options_.config, mates.size());
  const size_t bytes = shm::Region::Footprint(static_cast<int>(mates.size()), chunk);
  HVDLITE_RETURN_IF_ERROR(segment().Map(next_region_, bytes, &group->region_memory));
  next_region_ += bytes;

  std::vector<int> local_ranks;
  for (int member : mates) {
    local_ranks.push_back(
        roster_.places[static_cast<size_t>(topology.ranks[static_cast<size_t>(member)])]
            .local_rank);
  }
  const int local_me = topology.local_of[static_cast<size_t>(group->me)];
  group->region = std::make_unique<shm::Region>(group->region_memory, local_me, local_ranks, chunk,
                                                bells_.get());
  // The first access costs a microsecond a page. Pay it here for the pages that this rank writes,
  // not in the first training step.
  for (int slot = 0; slot < shm::Region::kSlots; ++slot) {
    memset(group->region->Slot(local_me, static_cast<uint64_t>(slot)), 0, chunk);
  }
  pipes->resize(mates.size());
  for (size_t i = 1; i < mates.size(); ++i) {
    const auto mine = static_cast<size_t>(local_me);
    const size_t parent = ParentOnHost(i);
    if (mine != parent && mine != i) continue;
    const size_t other = mine == parent ? i : parent;
    (*pipes)[other] = std::make_unique<Pipe>(
        group->region->PipeMemory(static_cast<int>(i)), shm::Region::kPipeBytes, mine == parent,
        topology.ranks[static_cast<size_t>(mates[other])], local_ranks[other], bells_.get());
  }
  return Status::Ok();
}

Status World::Connect(std::vector<int> ranks, uint32_t set, const Until& until,
                      std::unique_ptr<Group>* out) {
  auto group = std::make_unique<Group>();
  group->topology = MakeTopology(roster_, std::move(ranks));
  const Topology& topology = group->topology;
  const auto mine = std::find(topology.ranks.begin(), topology.ranks.end(), options_.rank);
  if (mine == topology.ranks.end()) {
    // This rank is not a member. But a set on this host moves the place of the next region.
    for (const auto& mates : topology.hosts) {
      const int rank = topology.ranks[static_cast<size_t>(mates[0])];
      if (roster_.places[static_cast<size_t>(rank)].host != place().host) continue;
      next_region_ += shm::Region::Footprint(static_cast<int>(mates.size()),
                                             ChunkBytes(*options_.config, mates.size()));
    }
    *out = std::move(group);
    return Status::Ok();
  }
  group->me = static_cast<int>(mine - topology.ranks.begin());
  group->tree = MakeTree(topology, group->me);

  std::vector<std::unique_ptr<Transport>> pipes;
  HVDLITE_RETURN_IF_ERROR(ConnectHost(group.get(), &pipes));
  std::vector<Transport*> links(topology.ranks.size(), nullptr);  // for tensors
  std::vector<Transport*> edges(topology.ranks.size(), nullptr);  // for negotiation
  if (!topology.single_host())
    HVDLITE_RETURN_IF_ERROR(ConnectMesh(group.get(), set, until, &links, &edges));

  // Tree edges: pipes inside the host, links between hosts.
  const auto edge = [&](int member) -> Transport* {
    if (topology.host_of[static_cast<size_t>(member)] !=
        topology.host_of[static_cast<size_t>(group->me)]) {
      return edges[static_cast<size_t>(member)];
    }
    return pipes[static_cast<size_t>(topology.local_of[static_cast<size_t>(member)])].get();
  };
  if (group->tree.parent >= 0) group->parent = edge(group->tree.parent);
  for (const TreeLinks::Child& child : group->tree.children)
    group->children.push_back(edge(child.member));

  const bool over_mpi = mpi_.use && options_.config->cpu_operations == "mpi";
  if (topology.ranks.size() == 1) {
    group->communicator = std::make_unique<self::Communicator>();
    group->why = "self: this process set has one member";
  } else if (topology.single_host() && over_mpi) {
    HVDLITE_RETURN_IF_ERROR(OverMpi(*group, topology.everyone(), topology.most_on_a_host(),
                                    static_cast<int>(2 * set), until, &group->communicator));
    group->why = "mpi (" + mpi_.why + "): HVDLITE_CPU_OPERATIONS=mpi";
  } else if (topology.single_host()) {
    auto shm = std::make_unique<shm::Communicator>(
        group->region.get(), static_cast<size_t>(options_.config->shm_small_bytes));
    shm->ReduceInPlace(SharedTensorsOf(*group));
    group->communicator = std::move(shm);
    group->why = "shm: all members are on one host";
  } else {
    HVDLITE_RETURN_IF_ERROR(BuildBetweenHosts(group.get(), set, links, until));
  }
  // The watch sees only what is negotiated.
  group->may_meet = topology.ranks.size() == 2 && !topology.single_host() && !mpi_.use &&
                    options_.config->net_meetings && !options_.config->nan_watch;
  if (topology.single_host() && !over_mpi && options_.config->shm_meetings &&
      !options_.config->nan_watch) {
    group->fast_exchange = std::make_unique<shm::FastExchange>(
        group->region->fast_exchange_memory(), group->region->me(), group->region->members());
    if (topology.ranks.size() > 1) group->shared = SharedTensorsOf(*group);
  }
  group->communicator->CountIn(&carrier_counts_);
  for (auto& pipe : pipes) {
    if (pipe != nullptr) group->transports.push_back(std::move(pipe));
  }
  *out = std::move(group);
  return Status::Ok();
}

void World::AbandonInChild() {
  for (int fd : neighbours_->sockets()) {
    if (fd >= 0) close(fd);
  }
}

std::unique_ptr<gpu::Communicator> World::OnGpu(const Group& group) {
  gpu::Options options;
  options.me = group.me;
  options.ranks = group.topology.ranks;
  options.preference = {options_.config->gpu_operations, group.why};
  options.host = group.topology.host_of[static_cast<size_t>(group.me)];
  const bool by_hosts =
      options_.config->hierarchical_allreduce == "on" || options_.config->torus_allreduce;
  options.grid = nccl::MakeGrid(group.topology, group.me, by_hosts);
  options.room = static_cast<size_t>(options_.config->gpu_chunk_bytes);
  options.log = options_.log;
  auto made =
      std::make_unique<gpu::Communicator>(group.communicator.get(), &card_, std::move(options));
  made->CountIn(&carrier_counts_);
  return made;
}

void World::Disconnect(Group* group) {
  // Destroy it now, under the turn, and not when the last handle releases it: calls of MPI must not
  // overlap.
  group->communicator.reset();
  group->fast_exchange.reset();
  group->inner.reset();
  group->outer.reset();
  if (group->region_memory != nullptr)
    segment().Unmap(group->region_memory, group->region->Leave());
  group->region_memory = nullptr;
}

}  // namespace hvdlite::comm
