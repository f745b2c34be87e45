// Communicator: collectives of one process set by NCCL, in the order of the device's stream.
//
// A work is done (kDone) when everything that it takes has been put on the stream; finished() is
// the event after that. Between the two the next one may start: it follows on the same stream.
// Several tensors go through one buffer, which all batches use in turn, in the order of the stream.
// Where the device has no memory for it pinned memory of the host serves: slower, but a member
// alone cannot do anything else than the others.
//
// Results are those of the host's communicators but for the order in which floats are summed, also
// in Adasum's dot products, their rounding on the way, and Min and Max of NaN, which are NCCL's to
// say.
//
// Thread-safety: one thread at a time. Failure: a Work, or Look(), fails with NCCL's words; then an
// abort makes the stream go on, and the device is as good as before.
#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "comm/nccl/channels.h"
#include "comm/nccl/plan.h"

namespace hvdlite::comm::nccl {

class Communicator final : public comm::Communicator {
 public:
  // The channels are ready: Poll() has said so. There are three if the context has a grid, else
  // one.
  Communicator(std::unique_ptr<Channels> channels, Context context);
  // Waits, not for long, for what is under way; what the device may still use after that is not
  // given back.
  ~Communicator() override;

  const char* name() const override { return "nccl"; }
  std::string Explain(const Batch& batch) const override;
  // Requires Can(): who chooses has asked.
  std::unique_ptr<Work> Start(const Batch& batch) override;
  void AddPollFds(std::vector<pollfd>*) const override {}
  bool must_be_asked() const override { return true; }

  bool Can(const Batch& batch, std::string* why) const { return nccl::Can(context_, batch, why); }
  // For the engine's tick: whether NCCL or the device has failed since a work was done.
  Status Look();
  // As Channels has them.
  bool ShutDown(const Until& until) { return channels_->ShutDown(until); }
  // A peer is lost, or the job ends: what is under way on the device is ended, with whatever
  // result.
  void BeginAbort() { channels_->BeginAbort(); }
  void EndAbort(const Deadline& deadline) { channels_->EndAbort(deadline); }

 private:
  friend class NcclWork;
  // A buffer that has become too small, until what uses it is done.
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
  device::EventPtr last_;  // after the batch that was put on the stream last, until it has fired
};

}  // namespace hvdlite::comm::nccl
