// Communicator: several members on each of several hosts.
//
//   allreduce     host A   [0 1 2 3]     inside each host: reduce-scatter, each rail owns 1/4
//                           | | | |      between hosts: each rail allreduces its share, all at once
//                 host B   [4 5 6 7]     inside each host: allgather
//   broadcast     the root sends to its rail's members on the other hosts; each sends to its host
//   encoded       dense inside the hosts; what travels between them is encoded, with the residual
//                 of the member that owns it
//   other kinds   flat, over links
//
// A rail connects the members with one local number, one per host. The number of rails is that of
// the members on the smallest host; members beyond it have no share. Every byte crosses each
// network card once per direction, whatever the number of members on a host. Results are
// bit-identical on all members: an element is summed in the order of members inside hosts, then in
// the order of hosts, whatever else is in the batch. float16 and bfloat16 stay float32 from the
// first sum to the last and are rounded once.
//
// Where all members of a host have a tensor in shared memory (shm/peer_addresses.h), both levels
// inside that host read and write it where it lies (in_place.h), with the same bits. Other hosts
// need not do so. Borrows everything.
#pragma once

#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "comm/shm/probe_policy.h"
#include "comm/shm/region.h"
#include "comm/topology.h"

namespace hvdlite::comm::hierarchical {

class Communicator final : public comm::Communicator {
 public:
  // `rail`: the members with my local number, one per host, in the order of hosts; null if there is
  // none. `flat`: all members.
  Communicator(const Topology& topology, int me, shm::Region* region, comm::Communicator* rail,
               comm::Communicator* flat)
      : topology_(topology),
        me_(me),
        rails_(topology.rails()),
        region_(region),
        rail_(rail),
        flat_(flat) {}

  // From now on tensors that all members of this host share are reduced in place, in batches of
  // more than `small_bytes`. All of them say so.
  void ReduceInPlace(shm::SharedTensors shared, size_t small_bytes) {
    probing_ = shm::ProbePolicy(std::move(shared), region_, small_bytes);
  }

  const char* name() const override { return "hierarchical"; }
  std::string Explain(const Batch& batch) const override;
  std::unique_ptr<Work> Start(const Batch& batch) override;
  std::unique_ptr<Exchanges> StartExchanges() override;
  std::unique_ptr<Work> StartEncoded(const Batch& batch, int me, int members) override;
  bool has_levels() const override { return true; }
  void AddPollFds(std::vector<pollfd>* fds) const override;
  bool slow() const override { return (rail_ != nullptr && rail_->slow()) || flat_->slow(); }
  bool must_be_asked() const override {
    return (rail_ != nullptr && rail_->must_be_asked()) || flat_->must_be_asked();
  }
  void Tune(const Tunables& tunables) override;
  void CountIn(CarrierCounts* carrier_counts) override {
    comm::Communicator::CountIn(carrier_counts);
    if (rail_ != nullptr) rail_->CountIn(carrier_counts);
    flat_->CountIn(carrier_counts);
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
  shm::ProbePolicy probing_;
  // This member's share of the fused tensors; these grow to the largest batch and stay.
  std::vector<char> share_;
  // for 16-bit floats: the share, then the part of it that this member finishes
  std::vector<float> sums_;
};

}  // namespace hvdlite::comm::hierarchical
