// HierarchicalCommunicator: several members on each of several hosts.
//
//   allreduce     host A   [0 1 2 3]     inside each host: reduce-scatter, each member owns 1/4
//                           | | | |      between hosts: one allreduce per local rank on its share, all at the same time
//                 host B   [4 5 6 7]     inside each host: allgather
//   broadcast     the root tells the members with its local rank on the other hosts; each tells its host
//   the others    flat, over links
//
// Every byte crosses each network card once per direction, whatever the number of members on a host. Bit-identical on all
// members: the order is that of members inside the hosts, then of hosts. float16 and bfloat16 are rounded once inside the
// host and once between hosts.
// Needs the same number of members on each host. Borrows everything.
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "comm/shm/region.h"
#include "comm/topology.h"

namespace hvdlite::comm {

class HierarchicalCommunicator final : public Communicator {
 public:
  // `rail`: the members with my local rank, one per host, in the order of hosts. `flat`: all members.
  HierarchicalCommunicator(const Topology& topology, int me, ShmRegion* region, Communicator* rail, Communicator* flat)
      : topology_(topology), me_(me), region_(region), rail_(rail), flat_(flat) {}

  const char* name() const override { return "hierarchical"; }
  std::string Explain(const Batch& batch) const override;
  std::unique_ptr<Work> Start(const Batch& batch) override;
  void AddPollFds(std::vector<pollfd>* fds) const override;
  bool must_be_asked() const override { return rail_->must_be_asked() || flat_->must_be_asked(); }
  void CountIn(Carried* carried) override {
    Communicator::CountIn(carried);
    rail_->CountIn(carried);
    flat_->CountIn(carried);
  }

 private:
  class Allreduce;
  class Broadcast;

  const Topology& topology_;
  const int me_;
  ShmRegion* const region_;
  Communicator* const rail_;
  Communicator* const flat_;
  std::vector<char> share_;  // this member's part of the fused tensors; grows to the largest batch and stays
};

}  // namespace hvdlite::comm
