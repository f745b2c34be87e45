// Communicator: collectives over the site's MPI.
//
// An allreduce uses messages and our own kernels, or MPI's own collective: ChooseImpl decides. A
// broadcast is MPI's; the rest are messages. No MPI call that may block is made while an operation
// is in progress. An arriving message rings no doorbell and wakes no poll(2), so a waiting thread
// has to poll.
//
// Thread-safety: one thread at a time. Failure: a Work fails with MPI's description; then the
// communicator cannot be used any more.
#pragma once

#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/mpi/algorithms.h"
#include "comm/mpi/allreduce_impl.h"

namespace hvdlite::comm::mpi {

struct Options {
  int members_per_card = 1;  // see Question
  size_t chunk_bytes = 1 << 20;
  std::string allreduce = "auto";  // HVDLITE_MPI_ALLREDUCE
};

class Communicator final : public comm::Communicator {
 public:
  // `over_pipes`: performs Adasum and gathers, over transports made of this channel's messages.
  Communicator(std::unique_ptr<Channel> channel, std::unique_ptr<comm::Communicator> over_pipes,
               Options options);

  const char* name() const override { return "mpi"; }
  std::string Explain(const Batch& batch) const override;
  std::unique_ptr<Work> Start(const Batch& batch) override;
  void AddPollFds(std::vector<pollfd>*) const override {}
  bool must_be_asked() const override { return true; }
  void CountIn(CarrierCounts* carrier_counts) override {
    comm::Communicator::CountIn(carrier_counts);
    over_pipes_->CountIn(carrier_counts);
  }

 private:
  Question Ask(const Batch& batch) const;
  std::unique_ptr<Work> Counted(Carrier carrier, const Batch& batch, std::unique_ptr<Work> work);

  const Options options_;
  const std::unique_ptr<Channel> channel_;
  Slots slots_;
  const std::unique_ptr<comm::Communicator> over_pipes_;
};

}  // namespace hvdlite::comm::mpi
