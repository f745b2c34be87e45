// Several members on each of several hosts, as threads: memory inside the hosts, socket pairs
// between them.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/hierarchical/communicator.h"
#include "net_world.h"
#include "shm_world.h"
#include "testing/in_threads.h"

namespace hvdlite::comm::net_testing {

// Members on other hosts ring no bell here, so nobody sleeps.
class Polled final : public Communicator {
 public:
  explicit Polled(Communicator* other) : other_(*other) {}
  const char* name() const override { return other_.name(); }
  std::string Explain(const Batch& batch) const override { return other_.Explain(batch); }
  std::unique_ptr<Work> Start(const Batch& batch) override { return other_.Start(batch); }
  std::unique_ptr<Work> StartEncoded(const Batch& batch, int me, int members) override {
    return other_.StartEncoded(batch, me, members);
  }
  void AddPollFds(std::vector<pollfd>* fds) const override { other_.AddPollFds(fds); }
  bool must_be_asked() const override { return true; }

 private:
  Communicator& other_;
};

class HierarchicalWorld {
 public:
  // host_of[m]: where member m is; hosts are numbered in the order of their first members.
  explicit HierarchicalWorld(const std::vector<int>& host_of, size_t chunk_bytes = 4096)
      : flat_(Size(host_of)) {
    topology_.host_of = host_of;
    for (size_t m = 0; m < host_of.size(); ++m) {
      const auto host = static_cast<size_t>(host_of[m]);
      if (host >= topology_.hosts.size()) topology_.hosts.emplace_back();
      topology_.ranks.push_back(static_cast<int>(m));
      topology_.local_of.push_back(static_cast<int>(topology_.hosts[host].size()));
      topology_.hosts[host].push_back(static_cast<int>(m));
    }
    for (const auto& mates : topology_.hosts) {
      hosts_.push_back(
          std::make_unique<shm_testing::ShmWorld>(static_cast<int>(mates.size()), chunk_bytes));
    }
    for (int r = 0; r < topology_.rails(); ++r) {
      rails_.push_back(std::make_unique<NetWorld>(static_cast<int>(topology_.hosts.size())));
    }
    for (size_t m = 0; m < host_of.size(); ++m) {
      const int local = topology_.local_of[m];
      Communicator* rail = local < topology_.rails()
                               ? rails_[static_cast<size_t>(local)]->member(host_of[m])
                               : nullptr;
      members_.push_back(std::make_unique<hierarchical::Communicator>(
          topology_, static_cast<int>(m), &hosts_[static_cast<size_t>(host_of[m])]->region(local),
          rail, flat_.member(static_cast<int>(m))));
      members_.back()->CountIn(&carrier_counts_);
      polled_.push_back(std::make_unique<Polled>(members_.back().get()));
      polled_.back()->CountIn(&carrier_counts_);
    }
  }

  // Each member gets a segment, and tensors that lie in those of all members of a host are reduced
  // in place.
  void ShareMemory(size_t bytes) {
    for (size_t m = 0; m < members_.size(); ++m) {
      segments_.emplace_back();
      EXPECT_TRUE(pool::Segment::Create(nullptr, bytes, &segments_.back()).ok());
    }
    for (size_t m = 0; m < members_.size(); ++m) {
      const auto& mates = topology_.hosts[static_cast<size_t>(topology_.host_of[m])];
      std::vector<int> local_ranks;
      peers_.push_back(std::make_unique<pool::Peers>(static_cast<int>(mates.size()),
                                                     topology_.local_of[m], segments_[m].get()));
      for (int mate : mates) {
        const int local = topology_.local_of[static_cast<size_t>(mate)];
        local_ranks.push_back(local);
        peers_.back()->Add(local, *segments_[static_cast<size_t>(mate)]);
      }
      members_[m]->ReduceInPlace({peers_.back().get(), std::move(local_ranks)}, 0);
    }
  }
  pool::Segment& segment(int m) { return *segments_[static_cast<size_t>(m)]; }
  Communicator* member(int m) { return members_[static_cast<size_t>(m)].get(); }

  int size() const { return static_cast<int>(members_.size()); }
  const Topology& topology() const { return topology_; }
  const CarrierCounts& carrier_counts() const { return carrier_counts_; }

  std::vector<Status> Run(const std::function<Status(int, Communicator*)>& body) {
    std::vector<Status> statuses(members_.size());
    InThreads(members_.size(),
              [&](size_t i) { statuses[i] = body(static_cast<int>(i), polled_[i].get()); });
    return statuses;
  }

 private:
  static int Size(const std::vector<int>& host_of) { return static_cast<int>(host_of.size()); }

  const hvdlite::testing::Watchdog watchdog_{300};
  Topology topology_;
  CarrierCounts carrier_counts_;
  NetWorld flat_;
  std::vector<std::unique_ptr<shm_testing::ShmWorld>> hosts_;
  std::vector<std::unique_ptr<NetWorld>> rails_;
  std::vector<std::unique_ptr<pool::Segment>> segments_;
  std::vector<std::unique_ptr<pool::Peers>> peers_;
  std::vector<std::unique_ptr<hierarchical::Communicator>> members_;
  std::vector<std::unique_ptr<Polled>> polled_;
};

}  // namespace hvdlite::comm::net_testing
