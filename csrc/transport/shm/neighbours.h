// Neighbours: the Unix sockets between the ranks of one host: a hub (local rank 0) and its spokes.
//
// They have two uses. During start-up the hub sends the shared segment, every rank's eventfd and
// what ranks share besides, as descriptors. Afterwards nothing is sent. The kernel closes a socket
// when its process ends, however it ends, so an end-of-file reports the death of a process. The hub
// watches every spoke, and the spokes watch the hub; the segment's abort word tells the rest.
//
// The socket lives in the abstract namespace (no file to leave behind) under a random name. A peer
// must have the same user id and know the job's secret before it gets a descriptor. Thread-safety:
// one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"
#include "base/until.h"
#include "transport/shm/host_segment.h"

namespace hvdlite::transport::shm {

class Neighbours {
 public:
  // Step 1, on the hub: opens the listener. `*name` is what the spokes need to connect.
  static Status Open(int* listener, std::string* name);

  // Step 2: every rank gets the mapped segment and, if `want_eventfds`, every local rank's eventfd.
  // The hub passes the listener of step 1 (closed on return), the spokes the name. `global_ranks`
  // names the local ranks in messages.
  static Status Host(int listener, const std::string& secret, std::vector<int> global_ranks,
                     bool want_eventfds, const Until& until, std::unique_ptr<Neighbours>* out);
  static Status Join(const std::string& name, const std::string& secret, int local_rank,
                     std::vector<int> global_ranks, bool want_eventfds, const Until& until,
                     std::unique_ptr<Neighbours>* out);
  ~Neighbours();

  // Each rank gives one descriptor (-1: none) and gets everyone's, by local rank: the spokes all,
  // the hub those of the spokes. Right after the start, by all ranks of the host.
  Status Share(int own, const Until& until, std::vector<Fd>* all);

  HostSegment* segment() { return segment_.get(); }
  // Empty, or one per local rank. This object owns them.
  const std::vector<int>& eventfds() const { return eventfds_; }
  // The sockets to poll for end-of-file.
  const std::vector<int>& sockets() const { return sockets_; }
  // How often a rank that waits for others asks whether they live. A launcher tells it at once; but
  // there may be none, and the ends of a socket ring no bell.
  static constexpr Nanos kLookEvery = 20 * kMillisecond;
  bool CheckIsDue(Nanos now) const { return now >= next_check_; }
  // Checks, without waiting, for dead neighbours. kPeerLost with the global rank of a neighbour
  // that died without leaving in good order.
  Status Check(Nanos now);

 private:
  static Status SendShared(int socket, const std::vector<int>& shared);
  Status ReceiveShared(const Until& until, std::vector<Fd>* all);
  explicit Neighbours(std::vector<int> global_ranks) : global_ranks_(std::move(global_ranks)) {}

  const std::vector<int> global_ranks_;
  std::unique_ptr<HostSegment> segment_;
  std::vector<int> eventfds_;
  std::vector<int> sockets_;       // hub: by local rank - 1; spoke: the hub
  std::vector<int> socket_ranks_;  // local rank at the other end
  Nanos next_check_ = 0;
};

}  // namespace hvdlite::transport::shm
