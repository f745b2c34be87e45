// World: this rank's place among all ranks of the job, and the machinery to connect any subset of
// them.
//
// Join() meets the other ranks through the store, maps the host's shared segment and opens the
// listener for links from other hosts. Connect() then builds what one process set needs: its region
// of the segment, its links, a communicator over them, and the edges of its negotiation tree. All
// ranks of the job must call Connect in the same order, because the ranks of one host derive a
// region's place from it. Ranks outside the set call it, too.
//
// Both block, up to a deadline: they run at init() and when a process set is added, never during an
// operation. Thread-safety: one thread at a time.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/log.h"
#include "base/until.h"
#include "comm/communicator.h"
#include "comm/gpu/communicator.h"
#include "comm/mpi/channel.h"
#include "comm/mpi/choice.h"
#include "comm/shm/peer_addresses.h"
#include "comm/shm/region.h"
#include "comm/topology.h"
#include "pool/peers.h"
#include "rendezvous/store.h"
#include "transport/shm/doorbells.h"
#include "transport/shm/neighbours.h"
#include "transport/tcp/handshake.h"
#include "transport/tcp/mesh.h"
#include "transport/traffic.h"
#include "transport/transport.h"

namespace hvdlite::comm {

// Everything that one process set needs to communicate. The tree's transports follow the TreeLinks
// of the same set.
struct Group {
  Topology topology;
  int me = -1;  // member number; -1: this rank is not in the set
  TreeLinks tree;
  transport::Transport* parent = nullptr;
  std::vector<transport::Transport*> children;  // as tree.children
  std::unique_ptr<Communicator> communicator;
  std::string why;  // why it is this communicator, as a sentence

  // Used by the members above, and destroyed after them.
  std::unique_ptr<Communicator> inner;  // hierarchical: flat, between all members
  std::unique_ptr<Communicator> outer;  // hierarchical: between hosts, along one local rank
  std::unique_ptr<shm::Region> region;
  std::unique_ptr<shm::FastExchange> fast_exchange;  // null with several hosts or over MPI
  shm::SharedTensors shared;                         // for the fast exchange
  bool may_meet = false;  // two members on two hosts: see engine/meeting.h
  void* region_memory = nullptr;
  std::vector<std::unique_ptr<transport::Transport>> transports;

  ~Group() { communicator.reset(); }
};

struct WorldOptions {
  int rank = 0;
  int size = 1;
  std::string store_prefix;         // keys of this incarnation begin with it
  uint32_t generation = 0;          // of an elastic job; 0: the job is not elastic
  int slot = 0;                     // on this host, in an elastic job
  transport::tcp::Secret secret{};  // of the generation
  double seconds = 0;               // that the ranks have to meet, for errors
  const Config* config = nullptr;   // borrowed
  const Logger* log = nullptr;      // borrowed
  std::string release;              // of hvdlite
  mpi::Access mpi;
  pool::Segment* gradients = nullptr;  // of this process; null: it has none. Borrowed
};

// The error where not all ranks have set their `what` in the store in time. It names those that
// have not, and of them those that have not called init() at all.
Status WhoIsLate(const WorldOptions& options, rendezvous::Store* store, const std::string& what);
std::string StartTimeout(const WorldOptions& options);

// A network interface, if this rank uses several.
struct Interface {
  transport::tcp::Origin origin;
  transport::Traffic traffic;
};

class World {
 public:
  // `store` may be null when size is 1.
  static Status Join(const WorldOptions& options, rendezvous::Store* store, Deadline deadline,
                     std::unique_ptr<World>* world);
  ~World();

  // `set` numbers the process sets of this incarnation; never reused.
  Status Connect(std::vector<int> ranks, uint32_t set, const Until& until,
                 std::unique_ptr<Group>* group);
  // Whether tensors of this job go over MPI, with the reason in `why`.
  const mpi::Choice& mpi() const { return mpi_; }
  // Call a few times a second. Closes unauthenticated connections that are late, and lets MPI
  // complete its pending messages.
  Status Tend();
  // In a forked child: closes the sockets whose end announces this rank's death.
  void AbandonInChild();
  // Makes the communicator for the set's tensors on GPUs. All members make theirs when their first
  // such batch begins.
  std::unique_ptr<gpu::Communicator> OnGpu(const Group& group);
  gpu::Card& card() { return card_; }
  const CarrierCounts& carrier_counts() const { return carrier_counts_; }
  // Empty unless several are in use.
  const std::deque<Interface>& interfaces() const { return interfaces_; }
  void CountFastPath(Carrier carrier, OpKind kind) { carrier_counts_.Count(carrier, kind); }
  // Gives the set's shared memory back.
  void Disconnect(Group* group);

  bool fuses() const { return options_.config->fusion_threshold > 0; }
  uint32_t generation() const { return options_.generation; }  // 0: the job is not elastic
  int rank() const { return options_.rank; }
  const rendezvous::Roster& roster() const { return roster_; }
  const rendezvous::Place& place() const {
    return roster_.places[static_cast<size_t>(options_.rank)];
  }
  bool multi_host() const { return roster_.hosts.size() > 1; }
  transport::shm::Doorbells& bells() { return *bells_; }
  transport::shm::Neighbours& neighbours() { return *neighbours_; }
  transport::shm::HostSegment& segment() { return *neighbours_->segment(); }
  // Whether this host has more ranks than processors. Then a waiting thread must yield at once.
  bool oversubscribed() const { return processors_ < place().local_size; }
  // Whether a second thread of this rank has a processor besides those of the host's ranks.
  bool has_spare_processor() const {
    return processors_ > place().local_size && my_processors_ > 1;
  }

 private:
  explicit World(const WorldOptions& options) : options_(options), card_(*options.config) {}
  // Swaps gradient segments with the ranks of this host.
  Status ShareGradients(const Until& until);
  // For tensors that all members on this host share; no peers: none.
  shm::SharedTensors SharedTensorsOf(const Group& group) const;
  Status ConnectHost(Group* group, std::vector<std::unique_ptr<transport::Transport>>* pipes);
  // In world_net.cc, which only jobs with several hosts use.
  Status TellAddresses(rendezvous::Member* me);
  Status OpenDoor(rendezvous::Store* store, Deadline deadline);
  Status OpenInterfaces(const std::string& door, std::string* doors);
  Status MeetAtDoors(rendezvous::Store* store, const std::string& mine, Deadline deadline);
  std::vector<std::string> InterfacesOf(int rank) const;
  std::vector<transport::tcp::MeshPeer> PeersFor(int rank) const;
  Status ConnectMesh(Group* group, uint32_t set, const Until& until,
                     std::vector<transport::Transport*>* data,
                     std::vector<transport::Transport*>* edges);
  Status ConnectTensors(Group* group, uint32_t mesh, const Until& until,
                        std::vector<transport::Transport*>* data);
  transport::Transport* Keep(std::unique_ptr<transport::tcp::Link> link, Group* group) const;
  Status BuildBetweenHosts(Group* group, uint32_t set,
                           const std::vector<transport::Transport*>& links, const Until& until);
  // In world_mpi.cc.
  Status JudgeMpi();
  Status TendMpi();
  // Makes a communicator over MPI among `members`, which include this rank. `tag` tells it from
  // others that are made at the same time.
  Status OverMpi(const Group& group, const std::vector<int>& members, size_t per_host, int tag,
                 const Until& until, std::unique_ptr<Communicator>* communicator);

  const WorldOptions options_;
  rendezvous::Roster roster_;
  std::unique_ptr<transport::tcp::LinkListener> listener_;  // several hosts only
  // Where each rank listens: for all, then for each of its interfaces if it uses several.
  std::vector<std::vector<transport::tcp::Endpoint>> doors_;
  std::deque<Interface> interfaces_;
  std::unique_ptr<transport::shm::Neighbours> neighbours_;
  std::unique_ptr<transport::shm::Doorbells> bells_;
  std::unique_ptr<pool::Peers> gradients_;  // of this host; null: not shared
  std::vector<bool> shares_gradients_;      // by local rank
  mpi::Choice mpi_;
  gpu::Card card_;
  CarrierCounts carrier_counts_;
  size_t next_region_ = 0;
  int processors_ = 1;     // of this host's ranks together
  int my_processors_ = 1;  // of this rank
};

}  // namespace hvdlite::comm
