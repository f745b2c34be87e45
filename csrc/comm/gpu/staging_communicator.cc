#include "comm/gpu/staging_communicator.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace hvdlite::comm::gpu {

namespace {

// The least bytes of input and of output each. Smaller memory would soon be too small.
constexpr size_t kLeast = 64 << 10;

size_t RoundedUp(size_t bytes) {
  return std::bit_ceil(std::max(bytes, kLeast));
}

}  // namespace

// Called once.
Status Stage::Reserve(device::Gpu* gpu, size_t wanted) {
  if (gpu != nullptr) {
    HVDLITE_RETURN_IF_ERROR(gpu->Pinned(2 * wanted, &pinned_));
    input = static_cast<char*>(pinned_->data());
  } else {
    plain_.resize(2 * wanted);
    input = plain_.data();
  }
  output = input + wanted;
  bytes = wanted;
  return Status::Ok();
}

class StagingCommunicator::StagedWork final : public Work {
 public:
  StagedWork(StagingCommunicator* owner, const Batch& batch)
      : host_(owner->host_),
        gpu_(owner->gpu_.get()),
        stages_(owner->stages_),
        cut_(batch, owner->me_, owner->members_, owner->room_),
        like_{batch.kind, batch.dtype, batch.root, batch.adasum, batch.reduce, {},
              {},         {},          {},         {},           {},           {}},
        on_gpu_(batch.device.kind != DeviceKind::kHost) {}

  Progress Advance() override {
    if (sum_ != nullptr) return Sum();
    // The next round's input leaves the device while the host works on this round.
    if (sent_ < cut_.rounds() && sent_ < summed_ + stages_.size()) {
      const Status sent = CopyOut(sent_);
      if (!sent.ok()) return Fail(sent);
      ++sent_;
      return Progress::kSome;
    }
    if (summed_ == cut_.rounds()) return Progress::kDone;
    Slot& slot = SlotOf(summed_);
    if (slot.out != nullptr) {
      bool fired = false;
      const Status status = slot.out->Query(&fired);
      if (!status.ok()) return Fail(status);
      if (!fired) return Progress::kNone;
      slot.out = nullptr;
    }
    sum_ = host_->Start(slot.batch);
    return Progress::kSome;
  }

  device::EventPtr finished() const override { return finished_; }

 private:
  struct Slot {
    Round round;
    Batch batch;
    device::EventPtr out;  // the input has arrived, and the earlier contents have left
  };
  Slot& SlotOf(size_t round) { return slots_[round % slots_.size()]; }
  Stage& StageOf(size_t round) { return *stages_[round % stages_.size()]; }

  Progress Sum() {
    const Progress progress = sum_->Advance();
    if (progress == Progress::kFailed) return Fail(sum_->status());
    if (progress != Progress::kDone) return progress;
    sum_.reset();
    const Status taken = CopyIn(summed_);
    if (!taken.ok()) return Fail(taken);
    ++summed_;
    return summed_ == cut_.rounds() ? Progress::kDone : Progress::kSome;
  }

  // Earlier contents of this memory leave it in the stream's order, and the host is done with it.
  Status CopyOut(size_t number) {
    Slot& slot = SlotOf(number);
    Stage& stage = StageOf(number);
    slot.round = cut_.At(number);
    slot.batch = like_;
    size_t input = 0;
    size_t output = 0;
    for (Piece& piece : slot.round.pieces) {
      piece.input = stage.input + input;
      piece.output = (cut_.in_place() ? stage.input : stage.output) + output;
      input += static_cast<size_t>(piece.count) * SizeOf(like_.dtype);
      output = input;
    }
    slot.batch.pieces = slot.round.pieces;
    if (!on_gpu_) {
      std::fill_n(stage.input, slot.round.give_bytes, '\0');
      return Status::Ok();
    }
    HVDLITE_RETURN_IF_ERROR(
        Each(cut_.source(), slot.round.give, [&](char* device, size_t at, size_t bytes) {
          return gpu_->CopyOut(stage.input + at, device, bytes);
        }));
    return gpu_->Record(gpu_->stream(), &slot.out);
  }

  Status CopyIn(size_t number) {
    if (!on_gpu_) return Status::Ok();
    Slot& slot = SlotOf(number);
    const char* const result = cut_.in_place() ? StageOf(number).input : StageOf(number).output;
    HVDLITE_RETURN_IF_ERROR(
        Each(cut_.target(), slot.round.take, [&](char* device, size_t at, size_t bytes) {
          return gpu_->CopyIn(device, result + at, bytes);
        }));
    return number + 1 < cut_.rounds() ? Status::Ok() : gpu_->Record(gpu_->stream(), &finished_);
  }

  // Calls copy(memory, offset in the staging memory, bytes) for each contiguous stretch that has
  // memory.
  template <typename Copy>
  static Status Each(const Flat& flat, const std::vector<Cursor>& stretches, Copy copy) {
    Status status;
    size_t staged = 0;
    for (const Cursor& stretch : stretches) {
      flat.Walk(stretch.at, stretch.end, [&](char* memory, size_t at, size_t bytes) {
        if (status.ok() && memory != nullptr)
          status = copy(memory, staged + (at - stretch.at), bytes);
      });
      staged += stretch.end - stretch.at;
    }
    return status;
  }

  comm::Communicator* const host_;
  device::Gpu* const gpu_;
  const std::array<std::shared_ptr<Stage>, 2> stages_;
  const Cut cut_;
  const Batch like_;
  const bool on_gpu_;
  std::array<Slot, 2> slots_;
  size_t sent_ = 0;    // rounds that have been copied out
  size_t summed_ = 0;  // rounds that the host has done
  std::unique_ptr<Work> sum_;
  device::EventPtr finished_;
};

std::string StagingCommunicator::Explain(const Batch& batch) const {
  return "through host memory, there " + host_->Explain(batch);
}

std::unique_ptr<Work> StagingCommunicator::Start(const Batch& batch) {
  Count(Carrier::kStage, batch.kind);
  return std::make_unique<StagedWork>(this, batch);
}

size_t StagingCommunicator::Needed(const Batch& batch) const {
  return RoundedUp(Cut(batch, me_, members_, room_).largest());
}

bool StagingCommunicator::Grows(const Batch& batch) const {
  if (!batch.adasum && agreed_ >= RoundedUp(room_)) return false;
  return Needed(batch) > agreed_;
}

Status StagingCommunicator::Reserve(const Batch& batch) {
  const size_t needed = Needed(batch);
  for (std::shared_ptr<Stage>& stage : stages_) {
    if (stage != nullptr && stage->bytes >= needed) continue;
    auto fresh = std::make_shared<Stage>();
    HVDLITE_RETURN_IF_ERROR(fresh->Reserve(gpu_.get(), needed));
    stage = std::move(fresh);
  }
  return Status::Ok();
}

void StagingCommunicator::Agreed(const Batch& batch) {
  agreed_ = std::max(agreed_, Needed(batch));
}

}  // namespace hvdlite::comm::gpu
