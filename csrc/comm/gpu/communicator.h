// Communicator: collectives of one process set on tensors on GPUs.
//
// At its first batch the members tell one another, through the host communicator, what each has
// (record.h) and decide alike (choice.h) who carries the tensors from then on: NCCL, or staging.
// Staging also takes what NCCL cannot do.
//
// What may need memory that a member turns out not to have is agreed on first: an allgather or an
// alltoall, whose result could not be allocated before, and a batch larger than any staged before.
// If a member lacks the memory, the operation fails on all members alike, and nothing else does.
//
// Each process set has a stream of its own: sets begin their batches in different orders on
// different ranks, and on one stream two of them could wait for each other for ever. Thread-safety:
// as every communicator. Borrows the host communicator and the card.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/until.h"
#include "comm/communicator.h"
#include "comm/gpu/card.h"
#include "comm/gpu/choice.h"
#include "comm/gpu/staging_communicator.h"
#include "comm/nccl/communicator.h"

namespace hvdlite::comm::gpu {

struct Options {
  int me = 0;
  std::vector<int> ranks;  // of the members
  Wish wish;
  int host = 0;  // the number of this member's host within the set
  nccl::Grid grid;
  size_t room = 4 << 20;        // bytes that are staged at once
  const Logger* log = nullptr;  // borrowed
};

class Communicator final : public comm::Communicator {
 public:
  Communicator(comm::Communicator* host, Card* card, Options options);

  // "gpu" before the members have decided.
  const char* name() const override;
  std::string Explain(const Batch& batch) const override;
  std::unique_ptr<Work> Start(const Batch& batch) override;
  void AddPollFds(std::vector<pollfd>* fds) const override { host_->AddPollFds(fds); }
  bool must_be_asked() const override { return true; }

  // The device and the stream on which batches happen. Null: this rank has none yet.
  const std::shared_ptr<device::Gpu>& gpu() const { return gpu_; }
  // Opens it, if this rank has one by now.
  Status FindGpu();
  // Why tensors travel as they do; empty before the members have decided.
  const std::string& why() const { return choice_.why; }
  // Whether something has failed since a batch was done.
  Status Look();
  // Waits until everything on the stream is done. False: it was not, in time.
  bool Settle(const Until& until);
  // Of NCCL's communicators, if there are any. False: not possible, or not in time; then they have
  // to be aborted.
  bool ShutDown(const Until& until);
  // A peer is lost, or the job ends: what is under way on the device ends, with whatever result,
  // and the stream goes on. Where there are several process sets all begin before any waits: to
  // end one may take that another's kernel has ended.
  void BeginAbort();
  void EndAbort(const Deadline& deadline);

 private:
  class GpuWork;

  Status Describe(Record* record);
  // Of NCCL's communicators, the ids that this member makes. Once: NCCL listens for each, in a
  // thread that only the ranks' coming ends.
  Status MakeIds(const nccl::Library& library);
  Status Judge(const std::vector<Record>& records);
  Status Meet(const std::vector<Record>& records);
  // Whether this batch goes by NCCL: alike on all members.
  bool ByNccl(const Batch& batch) const;
  // Whether the members must agree first that all can take part.
  bool AsksFirst(const Batch& batch) const;

  comm::Communicator* const host_;
  Card* const card_;
  const Options options_;
  std::shared_ptr<device::Gpu> gpu_;
  Choice choice_;
  Status refused_;                         // the members have decided that nothing goes
  std::array<std::string, 3> unique_ids_;  // by nccl::Among: those that this member has made
  std::unique_ptr<StagingCommunicator> staging_;
  bool kernels_ = false;                      // all members have them
  std::unique_ptr<nccl::Channels> channels_;  // until all members have come
  std::unique_ptr<nccl::Communicator> nccl_;
};

}  // namespace hvdlite::comm::gpu
