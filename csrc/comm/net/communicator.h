// Communicator: collectives over links, for members on different hosts. `choose` picks the
// algorithm.
//
// All members construct it with the same options. Scratch memory is the communicator's: allocated
// at the first operation that needs it, then kept, so that no operation pays for fresh pages.
// Thread-safety: one thread at a time. Lifetime: borrows the links; works must not outlive it.
// Failure: a work fails with the link's kPeerLost, or kInvalidArgument for a batch that no
// algorithm can do.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/choose.h"
#include "comm/communicator.h"
#include "comm/net/wire.h"

namespace hvdlite::comm::net {

struct Options {
  CostModel model;           // the same on all members
  int members_per_card = 1;  // see Question
  // The bytes moved before anything else is checked. Two pieces and their sum fit the L2 cache.
  size_t piece_bytes = 128 << 10;
  // The arrived contributions of all peers together. Adasum may need more.
  size_t scratch_bytes = 4 << 20;
  // HVDLITE_DEBUG_NET_ALGORITHM: used wherever it is legal.
  std::optional<Algorithm> force;
};

class Communicator : public comm::Communicator {
 public:
  // links[i] leads to member i; links[me] is null.
  Communicator(int me, int size, std::vector<transport::Transport*> links, Options options = {});

  const char* name() const override { return "net"; }
  std::string Explain(const Batch& batch) const override;
  std::unique_ptr<Work> Start(const Batch& batch) override;
  std::unique_ptr<Exchanges> StartExchanges() override;
  void Tune(const Tunables& tunables) override {
    model_.beta = options_.model.beta * tunables.byte_cost;
  }
  void AddPollFds(std::vector<pollfd>* fds) const override { wire_.AddPollFds(fds); }
  bool slow() const override { return wire_.slow(); }

 private:
  Question Ask(const Batch& batch) const;
  Choice Decide(const Question& question) const;

  const Options options_;
  CostModel model_;  // the options', as tuned
  net::Wire wire_;
};

}  // namespace hvdlite::comm::net
