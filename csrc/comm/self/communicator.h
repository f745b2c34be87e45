// Communicator: a set of one rank. Copies inputs to outputs and scales them; done at the first
// Advance().
#pragma once

#include "comm/communicator.h"

namespace hvdlite::comm::self {

class Communicator final : public comm::Communicator {
 public:
  const char* name() const override { return "self"; }
  std::string Explain(const Batch&) const override {
    return "self: this process set has one member";
  }
  std::unique_ptr<Work> Start(const Batch& batch) override;
  void AddPollFds(std::vector<pollfd>*) const override {}
};

}  // namespace hvdlite::comm::self
