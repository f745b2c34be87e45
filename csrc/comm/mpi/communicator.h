// Communicator: collectives over the MPI that the site has.
//
// Allreduce by messages and our own kernels, or by MPI's own collective: ChooseImpl says which.
// Broadcast is MPI's; the rest are messages. No MPI call that may block is made while an operation
// is under way. What arrives rings no bell and wakes no poll(2): a waiting thread has to come back
// and ask.
//
// Thread-safety: one thread at a time. Failure: a Work fails with MPI's words; then the
// communicator is of no more use.
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
  // `over_pipes`: what does Adasum and gathers, over transports made of this channel's messages.
  Communicator(std::unique_ptr<Channel> channel, std::unique_ptr<comm::Communicator> over_pipes,
               Options options);

  const char* name() const override { return "mpi"; }
  std::string Explain(const Batch& batch) const override;
  std::unique_ptr<Work> Start(const Batch& batch) override;
  void AddPollFds(std::vector<pollfd>*) const override {}
  bool must_be_asked() const override { return true; }
  void CountIn(Carried* carried) override {
    comm::Communicator::CountIn(carried);
    over_pipes_->CountIn(carried);
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
