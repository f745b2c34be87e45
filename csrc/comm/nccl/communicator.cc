#include "comm/nccl/communicator.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/leak.h"
#include "comm/nccl/adasum.h"
#include "comm/nccl/nccl_work.h"
#include "comm/nccl/planner.h"

namespace hvdlite::comm::nccl {

namespace {

constexpr Nanos kEndPatience = 2 * kSecond;

// Performs a plan: kernels before NCCL, NCCL's rounds, and kernels after them.
class PlannedWork final : public NcclWork {
 public:
  using NcclWork::NcclWork;

 private:
  Status Begin(std::vector<Step>* rest) override {
    Planner planner(context(), batch_);
    char* memory = nullptr;
    if (const size_t bytes = planner.BufferBytes(); bytes > 0)
      HVDLITE_RETURN_IF_ERROR(Memory(bytes, &memory));
    plan_ = std::move(planner).Make(memory);
    for (const Round& round : plan_.rounds) {
      rest->emplace_back([this, &round] { return Run(round.calls, round.among); });
    }
    rest->emplace_back([this] { return Move(plan_.scale_after, plan_.after); });
    return Move(plan_.scale_before, plan_.before);
  }

  Plan plan_;
};

}  // namespace

Communicator::Communicator(std::unique_ptr<Channels> channels, Context context)
    : context_(std::move(context)), channels_(std::move(channels)), gpu_(channels_->gpu()) {}

Communicator::~Communicator() {
  channels_.reset();  // shuts NCCL down, or aborts it
  const Deadline deadline = Deadline::After(kEndPatience);
  Status seen = Reap();
  while (seen.ok() && (last_ != nullptr || !retired_.empty()) && !deadline.Passed()) {
    std::this_thread::sleep_for(kBetweenLooks);
    seen = Reap();
  }
  if (last_ != nullptr) LeakOnPurpose(buffer_.release());
  for (Retired& old : retired_) LeakOnPurpose(old.buffer.release());
}

std::string Communicator::Explain(const Batch& batch) const {
  return "nccl: " + (batch.adasum ? WhyAdasum(context_.size) : ExplainLayout(context_, batch));
}

std::unique_ptr<Work> Communicator::Start(const Batch& batch) {
  Count(Carrier::kNccl, batch.kind);
  if (batch.adasum) return AdasumAllreduce(this, batch);
  return std::make_unique<PlannedWork>(this, batch);
}

Status Communicator::Memory(size_t bytes, char** memory) {
  if (buffer_ == nullptr || buffer_->bytes() < bytes) {
    HVDLITE_RETURN_IF_ERROR(Reap());
    std::unique_ptr<device::Gpu::Buffer> larger;
    const Status none = gpu_->OnDevice(bytes, &larger);
    if (!none.ok() && !gpu_->Pinned(bytes, &larger).ok()) return none;
    if (buffer_ != nullptr) {
      Retired old{nullptr, std::move(buffer_)};
      HVDLITE_RETURN_IF_ERROR(gpu_->Record(gpu_->stream(), &old.last_use));
      retired_.push_back(std::move(old));
    }
    buffer_ = std::move(larger);
  }
  *memory = static_cast<char*>(buffer_->data());
  return Status::Ok();
}

Status Communicator::Reap() {
  bool fired = false;
  if (last_ != nullptr) {
    HVDLITE_RETURN_IF_ERROR(last_->Query(&fired));
    if (fired) last_.reset();
  }
  for (auto old = retired_.begin(); old != retired_.end();) {
    HVDLITE_RETURN_IF_ERROR(old->last_use->Query(&fired));
    old = fired ? retired_.erase(old) : old + 1;
  }
  return Status::Ok();
}

Status Communicator::Look() {
  bool ready = false;
  HVDLITE_RETURN_IF_ERROR(channels_->Poll(&ready));
  return Reap();
}

}  // namespace hvdlite::comm::nccl
