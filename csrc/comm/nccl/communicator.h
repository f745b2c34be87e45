// Communicator: collectives of one process set by NCCL, in the order of the device's stream.
//
// A work is done (kDone) when all of it has been put on the stream; finished() is the event after
// that. Between the two the next work may start: it follows on the same stream. Several tensors go
// through one buffer, which all batches use in turn, in the order of the stream. If the device has
// no memory for the buffer, pinned host memory serves. It is slower, but one member alone cannot do
// anything else than the others.
//
// Results are those of the host's communicators, with three exceptions: the order in which floats
// are summed (also in Adasum's dot products), their intermediate rounding, and Min and Max of NaN,
// which follow NCCL.
//
// Thread-safety: one thread at a time. Failure: a Work, or Look(), fails with NCCL's description.
// An abort then makes the stream continue, and the device can be used further.
#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/nccl/channels.h"
#include "comm/nccl/plan.h"

namespace hvdlite::comm::nccl {

class Communicator final : public comm::Communicator {
 public:
  // Poll() must have said that the channels are ready. There are three if the context has a grid,
  // else one.
  Communicator(std::unique_ptr<Channels> channels, Context context);
  // Waits a short time for work in flight. Does not free memory that the device may still use after
  // that.
  ~Communicator() override;

  const char* name() const override { return "nccl"; }
  std::string Explain(const Batch& batch) const override;
  // Requires Can(), which the caller has checked.
  std::unique_ptr<Work> Start(const Batch& batch) override;
  void AddPollFds(std::vector<pollfd>*) const override {}
  bool must_be_asked() const override { return true; }

  bool Can(const Batch& batch, std::string* why) const { return nccl::Can(context_, batch, why); }
  // For the engine's tick: reports a failure of NCCL or the device since a work was done.
  Status Look();
  // As in Channels.
  bool ShutDown(const Until& until) { return channels_->ShutDown(until); }
  // Aborts after the loss of a peer or at the end of the job: work in flight on the device ends,
  // with an undefined result.
  void BeginAbort() { channels_->BeginAbort(); }
  void EndAbort(const Deadline& deadline) { channels_->EndAbort(deadline); }

 private:
  friend class NcclWork;
  // A buffer that has become too small. It is kept until the work that uses it is done.
  struct Retired {
    device::EventPtr last_use;
    std::unique_ptr<device::Gpu::Buffer> buffer;
  };

  Status Memory(size_t bytes, char** memory);
  Status Reap();

  const Context context_;
  std::unique_ptr<Channels> channels_;
  const std::shared_ptr<device::Gpu> gpu_;
  std::unique_ptr<device::Gpu::Buffer> buffer_;
  std::vector<Retired> retired_;
  device::EventPtr last_;  // after the batch that was enqueued last, until it has fired
};

}  // namespace hvdlite::comm::nccl
