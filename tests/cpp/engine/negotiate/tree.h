// Tree: members of a negotiation tree in one thread, over transports in memory. Time stands still
// unless a test moves `now`: a relay that needs a timeout to go on would hang, and the test says
// so.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "comm/topology.h"
#include "engine/negotiate/agree.h"
#include "testing/fault_transport.h"
#include "testing/loopback.h"

namespace hvdlite::engine {

using testing::FaultTransport;
using testing::Loopback;

// What the engine does with its Agreement, in small: announces by slot what it knows, remembers,
// forgets.
struct Member {
  std::unique_ptr<Agreement> agreement;
  std::map<uint64_t, Request> slots;  // what this member asked for when the slot was given
  std::map<std::string, uint64_t> slot_of;
  std::vector<std::string> history;  // of decisions, in words
  int batches = 0;
  std::set<std::string> outstanding;
  bool joined = false;

  Status Ask(const Request& request) {
    outstanding.insert(request.name);
    if (request.kind == OpKind::kJoin) joined = true;
    const auto known = slot_of.find(request.name);
    if (known != slot_of.end() && slots[known->second].SameExceptName(request)) {
      return agreement->AnnounceSlot(known->second, 0);
    }
    asked[request.name] = request;
    return agreement->Announce(request, known == slot_of.end() ? kNoSlot : known->second, 0);
  }

  void Hear(const Decision& decision) {
    switch (decision.kind) {
      case Down::kExecute:
        ++batches;
        for (const Response& response : decision.batch) {
          AgreedPtr operation = response.agreed;
          if (response.cached) {
            ASSERT_TRUE(agreed.count(response.slot)) << "a slot that nobody has explained";
            operation = agreed[response.slot];
          }
          const Request& request = operation->request;
          if (!response.cached && response.slot != kNoSlot) {
            agreed[response.slot] = operation;
            Request mine = outstanding.count(request.name) ? asked[request.name] : Request();
            mine.name = request.name;
            slots[response.slot] = mine;
            slot_of[request.name] = response.slot;
          }
          history.push_back("do " + request.name + " " + ToString(operation->rows));
          if (request.kind == OpKind::kJoin) joined = false;
          outstanding.erase(request.name);
        }
        break;
      case Down::kError:
        for (const std::string& name : decision.names) {
          history.push_back("error " + name);
          outstanding.erase(name);
        }
        break;
      case Down::kEvict:
        history.push_back("evict " + std::to_string(decision.slot));
        slot_of.erase(agreed[decision.slot]->request.name);
        slots.erase(decision.slot);
        agreed.erase(decision.slot);
        agreement->AnnounceEvicted(decision.slot);
        break;
      default: history.push_back("other " + decision.status.message());
    }
  }

  std::map<std::string, Request> asked;
  std::map<uint64_t, AgreedPtr> agreed;
};

class Tree {
 public:
  Tree(int members, int per_host, size_t capacity, bool faults = false,
       const std::function<void(AgreementOptions*)>& change = nullptr) {
    rendezvous::Roster roster;
    std::vector<rendezvous::Member> all;
    for (int r = 0; r < members; ++r) {
      rendezvous::Member m;
      m.rank = r;
      m.host_id = "host" + std::to_string(r / per_host);
      all.push_back(m);
    }
    EXPECT_TRUE(MakeRoster(all, &roster).ok());
    std::vector<int> ranks;
    for (int r = 0; r < members; ++r) ranks.push_back(r);
    const comm::Topology topology = comm::MakeTopology(roster, ranks);
    std::map<std::pair<int, int>, transport::Transport*> ends;  // (me, other)
    for (int m = 0; m < members; ++m) {
      for (const auto& child : comm::MakeTree(topology, m).children) {
        auto [a, b] = Loopback::Pair(m, child.member, faults ? 64 : SIZE_MAX);
        for (auto* end : {&a, &b}) {
          std::unique_ptr<transport::Transport> t = std::move(*end);
          if (faults) {
            t = std::make_unique<FaultTransport>(
                std::move(t),
                testing::Faults{
                    .seed = static_cast<uint32_t>(transports_.size()), .stall = 0.3, .most = 7});
          }
          ends[end == &a ? std::pair{m, child.member} : std::pair{child.member, m}] = t.get();
          transports_.push_back(std::move(t));
        }
      }
    }
    for (int m = 0; m < members; ++m) {
      const comm::TreeLinks links = comm::MakeTree(topology, m);
      TreePlace place;
      place.me = m;
      if (links.parent >= 0) place.parent = ends[{m, links.parent}];
      for (const auto& child : links.children)
        place.children.push_back({ends[{m, child.member}], child.speaks_for});
      AgreementOptions options;
      options.cache_capacity = capacity;
      if (change) change(&options);
      members_.push_back(std::make_unique<Member>());
      members_.back()->agreement = std::make_unique<Agreement>(std::move(place), ranks, options);
    }
  }

  Member& operator[](int m) { return *members_[static_cast<size_t>(m)]; }
  int size() const { return static_cast<int>(members_.size()); }

  Nanos now = 0;

  bool Turn(int m) {
    bool moved = false;
    std::vector<Decision> decisions;
    const Status status = (*this)[m].agreement->Exchange(now, &decisions, &moved);
    EXPECT_TRUE(status.ok()) << m << ": " << status.ToString();
    for (const Decision& decision : decisions) (*this)[m].Hear(decision);
    return moved || !decisions.empty();
  }
  // Until nothing moves any more.
  void Settle() {
    for (int quiet = 0; quiet < 40;) {
      bool moved = false;
      for (int m = size() - 1; m >= 0; --m) moved |= Turn(m);
      quiet = moved ? 0 : quiet + 1;
    }
  }
  void ExpectEqualHistories() {
    for (int m = 1; m < size(); ++m)
      ASSERT_EQ((*this)[m].history, (*this)[0].history) << "member " << m;
  }

 private:
  std::vector<std::unique_ptr<transport::Transport>> transports_;
  std::vector<std::unique_ptr<Member>> members_;
};

inline Request Sum(const std::string& name, Shape shape = {4}) {
  Request r;
  r.name = name;
  r.shape = std::move(shape);
  return r;
}
inline Request Gather(const std::string& name, int64_t rows) {
  Request r = Sum(name, {rows, 2});
  r.kind = OpKind::kAllgather;
  return r;
}
inline Request Joining() {
  Request r;
  r.kind = OpKind::kJoin;
  r.name = "join";
  r.cacheable = false;
  return r;
}

}  // namespace hvdlite::engine
