// Communicator: several members on each of several hosts.
//
//   allreduce     host A   [0 1 2 3]     inside each host: reduce-scatter, each rail owns 1/4
//                           | | | |      between hosts: each rail allreduces its share, all at once
//                 host B   [4 5 6 7]     inside each host: allgather
//   broadcast     the root tells the members of its rail on the other hosts; each tells its host
//   the others    flat, over links
//
// A rail joins the members of one local number, one per host. There are as many as the host with
// the fewest members has; members beyond have no share. Every byte crosses each network card once
// per direction, whatever the number of members on a host. Bit-identical on all members: an element
// is summed in the order of members inside hosts, then of hosts, whatever else is in the batch.
// float16 and bfloat16 are float32 from the first sum to the last and rounded once. Borrows
// everything.
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "comm/shm/region.h"
#include "comm/topology.h"

namespace hvdlite::comm::hierarchical {

class Communicator final : public comm::Communicator {
 public:
  // `rail`: the members with my local number, one per host, in the order of hosts; null where there
  // is none. `flat`: all members.
  Communicator(const Topology& topology, int me, shm::Region* region, comm::Communicator* rail,
               comm::Communicator* flat)
      : topology_(topology),
        me_(me),
        rails_(topology.rails()),
        region_(region),
        rail_(rail),
        flat_(flat) {}

  const char* name() const override { return "hierarchical"; }
  std::string Explain(const Batch& batch) const override;
  std::unique_ptr<Work> Start(const Batch& batch) override;
  void AddPollFds(std::vector<pollfd>* fds) const override;
  bool must_be_asked() const override {
    return (rail_ != nullptr && rail_->must_be_asked()) || flat_->must_be_asked();
  }
  void CountIn(Carried* carried) override {
    comm::Communicator::CountIn(carried);
    if (rail_ != nullptr) rail_->CountIn(carried);
    flat_->CountIn(carried);
  }

 private:
  class Allreduce;
  class Broadcast;

  bool Carries(const Batch& batch) const;
  int hosts() const { return static_cast<int>(topology_.hosts.size()); }
  int host() const { return topology_.host_of[static_cast<size_t>(me_)]; }

  const Topology& topology_;
  const int me_;
  const int rails_;
  shm::Region* const region_;
  comm::Communicator* const rail_;
  comm::Communicator* const flat_;
  // This member's share of the fused tensors; these grow to the largest batch and stay.
  std::vector<char> share_;
  // of 16-bit floats: the share, then what this host's member of the rail finishes of it
  std::vector<float> sums_;
};

}  // namespace hvdlite::comm::hierarchical
