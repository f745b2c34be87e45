#include "comm/shm/in_place.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "comm/flat.h"
#include "comm/shm/pipeline.h"

namespace hvdlite::comm::shm {
namespace {

// What is copied to further members while it is in the nearest cache.
constexpr size_t kHotBytes = 8 << 10;

class InPlace final : public Work {
 public:
  InPlace(Region* region, const SharedTensors& shared, const Batch& batch, StartRest start_rest,
          std::function<void(bool)> heard)
      : region_(region),
        addresses_(region, shared, batch),
        batch_(batch),
        start_rest_(std::move(start_rest)),
        heard_(std::move(heard)),
        size_of_(SizeOf(batch.dtype)),
        tensors_(Members()),
        sources_(Members()) {}

  Progress Advance() override {
    switch (stage_) {
      case Stage::kAsk: {
        const Progress progress = addresses_.Ask();
        if (progress == Progress::kFailed) return Fail(addresses_.status());
        if (progress != Progress::kDone) return progress;
        heard_(addresses_.any());
        return Enter(Stage::kPass);
      }
      case Stage::kPass:
        if (piece_ < batch_.pieces.size()) return ReduceSome();
        addresses_.Release();
        FindRest();
        if (!rest_batch_.pieces.empty()) rest_ = start_rest_(rest_batch_);
        return Enter(Stage::kRest);
      case Stage::kRest: {
        if (rest_ == nullptr) return Enter(Stage::kEnd);
        const Progress progress = rest_->Advance();
        if (progress == Progress::kFailed) return Fail(rest_->status());
        if (progress != Progress::kDone) return progress;
        rest_.reset();
        return Enter(Stage::kEnd);
      }
      case Stage::kEnd: return addresses_.AllReleased() ? Progress::kDone : Progress::kNone;
    }
    return Progress::kNone;
  }

 private:
  enum class Stage : uint8_t { kAsk, kPass, kRest, kEnd };

  size_t Members() const { return static_cast<size_t>(region_->members()); }

  Progress Enter(Stage stage) {
    stage_ = stage;
    return Progress::kSome;
  }

  void FindRest() {
    rest_batch_.kind = batch_.kind;
    rest_batch_.dtype = batch_.dtype;
    rest_batch_.reduce = batch_.reduce;
    rest_batch_.device = batch_.device;
    for (size_t i = 0; i < batch_.pieces.size(); ++i) {
      if (!addresses_.Shares(i)) rest_batch_.pieces.push_back(batch_.pieces[i]);
    }
  }

  // The next part of my share of the tensor that has its turn.
  Progress ReduceSome() {
    if (!addresses_.Shares(piece_)) return NextPiece();
    const size_t bytes = static_cast<size_t>(batch_.pieces[piece_].count) * size_of_;
    const size_t begin = ShareBegin(bytes, region_->members(), region_->me()) + done_;
    const size_t end = ShareBegin(bytes, region_->members(), region_->me() + 1);
    if (begin >= end) return NextPiece();
    const size_t stop = std::min(end, begin + PeerAddresses::kBytesAtOnce);
    const size_t hot = Members() > 2 ? kHotBytes : PeerAddresses::kBytesAtOnce;
    for (size_t at = begin; at < stop; at += hot) ReduceAt(at, std::min(hot, stop - at));
    done_ += stop - begin;
    return Progress::kSome;
  }

  Progress NextPiece() {
    ++piece_;
    done_ = 0;
    return Progress::kSome;
  }

  void ReduceAt(size_t at, size_t bytes) {
    for (size_t m = 0; m < Members(); ++m)
      sources_[m] = tensors_[m] = addresses_.Tensor(m, piece_) + at;
    kernels::Reduce(batch_.reduce, tensors_[0], tensors_[1], sources_.data(), region_->members(),
                    static_cast<int64_t>(bytes / size_of_));
    for (size_t m = 2; m < Members(); ++m) memcpy(tensors_[m], tensors_[0], bytes);
  }

  Region* const region_;
  PeerAddresses addresses_;
  const Batch& batch_;
  const StartRest start_rest_;
  const std::function<void(bool)> heard_;
  const size_t size_of_;
  Stage stage_ = Stage::kAsk;
  std::vector<char*> tensors_;  // of each member, during one call
  std::vector<const void*> sources_;
  size_t piece_ = 0;
  size_t done_ = 0;  // bytes of my share of that piece
  Batch rest_batch_;
  std::unique_ptr<Work> rest_;
};

}  // namespace

size_t ShareBegin(size_t bytes, int members, int member) {
  const size_t lines = (bytes + kLine - 1) / kLine;
  return std::min(PartBegin(lines, members, member) * kLine, bytes);
}

std::unique_ptr<Work> StartInPlace(Region* region, const SharedTensors& shared, const Batch& batch,
                                   StartRest start_rest, std::function<void(bool)> heard) {
  return std::make_unique<InPlace>(region, shared, batch, std::move(start_rest), std::move(heard));
}

}  // namespace hvdlite::comm::shm
