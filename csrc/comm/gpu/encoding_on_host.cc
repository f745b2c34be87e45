#include <algorithm>
#include <utility>

#include "comm/compressed/encoded_allreduce.h"
#include "comm/gpu/encoding.h"

namespace hvdlite::comm::gpu {
namespace {

size_t BytesOf(const Piece& piece) {
  return static_cast<size_t>(piece.count) * sizeof(float);
}

// A member without a GPU has its tensors in host memory already.
class OnHost final : public Encoding {
 public:
  OnHost(std::shared_ptr<device::Gpu> gpu, comm::Communicator* host, const Batch& batch, int me,
         int members)
      : gpu_(std::move(gpu)),
        host_(*host),
        batch_(batch),
        me_(me),
        members_(members),
        on_gpu_(batch.device.kind != DeviceKind::kHost) {
    staged_.kind = batch.kind;
    staged_.dtype = batch.dtype;
    staged_.reduce = batch.reduce;
    staged_.codec = batch.codec;
    staged_.pieces = batch.pieces;
  }

  Status Reserve() override {
    if (!on_gpu_) return Status::Ok();
    size_t bytes = 0;
    for (const Piece& piece : batch_.pieces)
      bytes += BytesOf(piece) * (piece.coding.residual == nullptr ? 1 : 2);
    HVDLITE_RETURN_IF_ERROR(gpu_->Pinned(std::max<size_t>(bytes, 1), &memory_));
    char* place = static_cast<char*>(memory_->data());
    for (Piece& piece : staged_.pieces) {
      piece.input = piece.output = place;
      place += BytesOf(piece);
      if (piece.coding.residual == nullptr) continue;
      piece.coding.residual = reinterpret_cast<float*>(place);
      place += BytesOf(piece);
    }
    return Status::Ok();
  }

  Progress Advance() override {
    if (!begun_) {
      begun_ = true;
      const Status copied = CopyOut();
      return copied.ok() ? Progress::kSome : Fail(copied);
    }
    if (work_ == nullptr) {
      bool here = true;
      const Status asked = here_ == nullptr ? Status::Ok() : here_->Query(&here);
      if (!asked.ok()) return Fail(asked);
      if (!here) return Progress::kNone;
      work_ = compressed::StartEncoded(&host_, staged_, me_, members_);
    }
    const Progress progress = work_->Advance();
    if (progress == Progress::kFailed) return Fail(work_->status());
    if (progress != Progress::kDone) return progress;
    const Status copied = CopyIn();
    return copied.ok() ? Progress::kDone : Fail(copied);
  }
  device::EventPtr finished() const override { return finished_; }

 private:
  Status CopyOut() {
    if (!on_gpu_) return Status::Ok();
    for (size_t i = 0; i < batch_.pieces.size(); ++i) {
      const Piece &there = batch_.pieces[i], &here = staged_.pieces[i];
      HVDLITE_RETURN_IF_ERROR(Out(here.output, there.input, BytesOf(there)));
      if (there.coding.residual != nullptr) {
        HVDLITE_RETURN_IF_ERROR(Out(here.coding.residual, there.coding.residual, BytesOf(there)));
      }
    }
    return gpu_->Record(gpu_->stream(), &here_);
  }
  Status CopyIn() {
    if (!on_gpu_) return Status::Ok();
    for (size_t i = 0; i < batch_.pieces.size(); ++i) {
      const Piece &there = batch_.pieces[i], &here = staged_.pieces[i];
      HVDLITE_RETURN_IF_ERROR(In(there.output, here.output, BytesOf(there)));
      if (there.coding.residual != nullptr) {
        HVDLITE_RETURN_IF_ERROR(In(there.coding.residual, here.coding.residual, BytesOf(there)));
      }
    }
    return gpu_->Record(gpu_->stream(), &finished_);
  }
  Status Out(void* host, const void* device, size_t bytes) {
    return bytes == 0 ? Status::Ok() : gpu_->CopyOut(host, device, bytes);
  }
  Status In(void* device, const void* host, size_t bytes) {
    return bytes == 0 ? Status::Ok() : gpu_->CopyIn(device, host, bytes);
  }

  const std::shared_ptr<device::Gpu> gpu_;
  comm::Communicator& host_;
  const Batch& batch_;
  const int me_;
  const int members_;
  const bool on_gpu_;
  Batch staged_;
  std::unique_ptr<device::Gpu::Buffer> memory_;
  bool begun_ = false;
  device::EventPtr here_;  // tensors and residuals are in pinned memory
  std::unique_ptr<Work> work_;
  device::EventPtr finished_;
};

}  // namespace

std::unique_ptr<Encoding> EncodeOnHost(std::shared_ptr<device::Gpu> gpu, comm::Communicator* host,
                                       const Batch& batch, int me, int members) {
  return std::make_unique<OnHost>(std::move(gpu), host, batch, me, members);
}

}  // namespace hvdlite::comm::gpu
