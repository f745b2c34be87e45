// Communicator: collectives among the ranks of one host, through the memory that they share.
#pragma once

#include "comm/communicator.h"
#include "comm/shm/region.h"

namespace hvdlite::comm::shm {

class Communicator final : public comm::Communicator {
 public:
  // Allreduces of at most `small_bytes` use the exchange. Between two members the limit is eight
  // times as high, because for two the exchange reads no more than the shares. Borrows the region.
  Communicator(Region* region, size_t small_bytes)
      : region_(region), exchange_bytes_(region->members() == 2 ? 8 * small_bytes : small_bytes) {}

  const char* name() const override { return "shm"; }
  std::string Explain(const Batch& batch) const override;
  std::unique_ptr<Work> Start(const Batch& batch) override;
  void AddPollFds(std::vector<pollfd>*) const override {}  // peers ring the doorbell

 private:
  bool FitsExchange(const Batch& batch) const;
  Carrier Choose(const Batch& batch) const;

  Region* const region_;
  const size_t exchange_bytes_;
};

}  // namespace hvdlite::comm::shm
