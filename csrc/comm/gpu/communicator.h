// Communicator: collectives of one process set on tensors on GPUs.
//
// At the first batch the members exchange their records (record.h) through the host communicator.
// From these they decide alike (choice.h) whether NCCL or staging carries the tensors from then on.
// Staging also takes the batches that NCCL cannot do.
//
// Some batches may need memory that a member does not have: an allgather or an alltoall, whose
// result could not be allocated before, and a batch larger than any staged before. The members
// first agree on such a batch. If a member lacks the memory, the operation fails on all members
// alike, and nothing else does.
//
// Each process set has a stream of its own. Sets begin their batches in different orders on
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
#include "comm/gpu/encoding.h"
#include "comm/gpu/staging_communicator.h"
#include "comm/nccl/communicator.h"

namespace hvdlite::comm::gpu {

struct Options {
  int me = 0;
  std::vector<int> ranks;  // the members' global ranks
  Preference preference;
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
  std::unique_ptr<Work> StartEncoded(const Batch& batch, int me, int members) override;
  void AddPollFds(std::vector<pollfd>* fds) const override { host_->AddPollFds(fds); }
  bool slow() const override { return host_->slow(); }
  bool must_be_asked() const override { return true; }

  // The device and the stream on which batches happen. Null: this rank has none yet.
  const std::shared_ptr<device::Gpu>& gpu() const { return gpu_; }
  // Opens a stream on this rank's GPU, if the rank has one by now.
  Status FindGpu();
  // Why tensors travel this way; empty before the members have decided.
  const std::string& why() const { return choice_.why; }
  // Reports failures since a batch was done.
  Status Look();
  // Waits until everything on the stream is done. Returns false if it was not done in time.
  bool Settle(const Until& until);
  // Shuts NCCL's communicators down, if there are any. Returns false if that was not possible, or
  // not in time; then they have to be aborted.
  bool ShutDown(const Until& until);
  // Aborts after the loss of a peer or at the end of the job. Work in flight on the device ends,
  // with an undefined result, and the stream continues. With several process sets, begin all aborts
  // before waiting for any, because one may end only after another's kernel has ended.
  void BeginAbort();
  void EndAbort(const Deadline& deadline);

 private:
  class GpuWork;

  Status Describe(Record* record);
  // Creates the ids of the NCCL communicators of which this member is the first. Called once: for
  // each id NCCL starts a listener thread that runs until all ranks have connected.
  Status MakeIds(const nccl::Library& library);
  Status Judge(const std::vector<Record>& records);
  Status Meet(const std::vector<Record>& records);
  // Whether NCCL carries this batch: the same on all members.
  bool ByNccl(const Batch& batch) const;
  // Whether the members must agree first that all can take part.
  bool AsksFirst(const Batch& batch) const;
  // Whether staging carries it, and needs more memory for it.
  bool StagingGrows(const Batch& batch) const;
  // Takes the memory that staging needs for a batch; once all members have it, Agreed().
  Status Reserve(const Batch& batch);
  void Agreed(const Batch& batch);
  // Starts a batch that all members can take part in.
  std::unique_ptr<Work> StartAgreed(const Batch& batch);
  std::unique_ptr<Encoding> EncodingOf(const Batch& batch);

  comm::Communicator* const host_;
  Card* const card_;
  const Options options_;
  std::shared_ptr<device::Gpu> gpu_;
  Choice choice_;
  Status refused_;                         // why the members refuse all batches
  std::array<std::string, 3> unique_ids_;  // those that this member has made, by nccl::Among
  std::unique_ptr<StagingCommunicator> staging_;
  bool kernels_ = false;                      // all members have them
  std::unique_ptr<nccl::Channels> channels_;  // until all members have connected
  std::unique_ptr<nccl::Communicator> nccl_;
};

}  // namespace hvdlite::comm::gpu
