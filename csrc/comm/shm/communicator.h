// Communicator: collectives among the ranks of one host, through the memory that they share.
#pragma once

#include <utility>

#include "comm/communicator.h"
#include "comm/shm/in_place.h"
#include "comm/shm/probe_policy.h"
#include "comm/shm/region.h"

namespace hvdlite::comm::shm {

class Communicator final : public comm::Communicator {
 public:
  // Allreduces of at most `small_bytes` use the exchange. Between two members the limit is eight
  // times as high, because for two the exchange reads no more than the shares. Borrows the region.
  Communicator(Region* region, size_t small_bytes)
      : region_(region), small_bytes_(small_bytes), exchange_bytes_(ExchangeBytes()) {}

  void Tune(const Tunables& tunables) override;

  // From now on tensors that all members share are reduced in place, in batches of more than
  // `small_bytes`. All members say so.
  void ReduceInPlace(SharedTensors shared) {
    probing_ = ProbePolicy(std::move(shared), region_, small_bytes_);
  }

  const char* name() const override { return "shm"; }
  std::string Explain(const Batch& batch) const override;
  std::unique_ptr<Work> Start(const Batch& batch) override;
  void AddPollFds(std::vector<pollfd>*) const override {}  // peers ring the doorbell

 private:
  size_t ExchangeBytes() const { return region_->members() == 2 ? 8 * small_bytes_ : small_bytes_; }
  bool FitsExchange(const Batch& batch) const { return BytesOf(batch) <= exchange_bytes_; }
  Carrier Choose(const Batch& batch) const;
  std::unique_ptr<Work> StartAs(Carrier carrier, const Batch& batch);

  Region* const region_;
  const size_t small_bytes_;
  size_t exchange_bytes_;
  ProbePolicy probing_;
};

}  // namespace hvdlite::comm::shm
