// NcclWork: puts one batch on the device's stream, step by step. Internal to comm/nccl.
//
// A step puts kernels, and after them at most one group of NCCL's calls, on the stream. The next
// step follows when NCCL says that its calls are on the stream. Before that, the next step's work
// could overtake them.
#pragma once

#include <functional>
#include <vector>

#include "comm/communicator.h"
#include "comm/nccl/communicator.h"

namespace hvdlite::comm::nccl {

class NcclWork : public Work {
 public:
  NcclWork(Communicator* communicator, const Batch& batch) : batch_(batch), all_(*communicator) {}

  Progress Advance() final;
  device::EventPtr finished() const final { return finished_; }

 protected:
  using Step = std::function<Status()>;
  // Performs the first step. Returns the steps that follow.
  virtual Status Begin(std::vector<Step>* rest) = 0;

  const Context& context() const { return all_.context_; }
  device::Gpu* gpu() const { return all_.gpu_.get(); }
  // As in Communicator: valid until the last step.
  Status Memory(size_t bytes, char** memory) { return all_.Memory(bytes, memory); }
  Status Move(const kernels::Scaling& scaling, const std::vector<kernels::Move>& moves);
  Status Run(const std::vector<Call>& calls, Among among = Among::kAll);

  const Batch& batch_;

 private:
  Status Continue(bool* done);

  Communicator& all_;
  bool begun_ = false;
  std::vector<Step> rest_;
  size_t next_ = 0;
  device::EventPtr finished_;
};

}  // namespace hvdlite::comm::nccl
