#include "comm/compressed/sparse_allreduce.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "comm/compressed/parts_work.h"
#include "comm/compressed/split.h"

namespace hvdlite::comm::compressed {

namespace {

// Elements that are cleared at a time: tens of microseconds.
constexpr int64_t kClearedAtOnce = 1 << 17;
constexpr int64_t kPair = sizeof(float) + sizeof(int32_t);

// The rows of all members in an allgather of bytes, one after the other.
class SparseRows {
 public:
  SparseRows() = default;
  SparseRows(char* at, int64_t row) : at_(at), row_(row) {}
  float* Values(int member, int64_t offset) const {
    return reinterpret_cast<float*>(at_ + member * row_ + offset);
  }

 private:
  char* at_ = nullptr;
  int64_t row_ = 0;
};

// One tensor of the batch. `offset`: where its values begin in a row; its positions follow.
class SparseTensor {
 public:
  SparseTensor(const Piece& piece, const kernels::ReduceSpec& reduce, int64_t offset)
      : piece_(piece),
        factor_(static_cast<float>(reduce.prescale * reduce.postscale / reduce.divisor)),
        offset_(offset) {}

  // Works on one stretch. True: my row has what I send, and the result has zeros.
  bool Select(const SparseRows& rows, int me) {
    float* const values = rows.Values(me, offset_);
    if (piece_.memory == nullptr) {
      if (cleared_ == 0) std::memset(values, 0, static_cast<size_t>(piece_.taken * kPair));
      return Clear();
    }
    if (selector_ == nullptr) {
      kernels::Selection selection = *piece_.memory;
      selection.count = piece_.count;
      selection.gradient = static_cast<const float*>(piece_.input);
      selection.cleared = static_cast<float*>(piece_.output);
      selection.taken = piece_.taken;
      selection.values = values;
      selection.positions = reinterpret_cast<int32_t*>(values + piece_.taken);
      selector_ = std::make_unique<kernels::Selector>(selection);
    }
    if (!selector_->Step()) return false;
    selector_.reset();
    return true;
  }

  // Adds what all members have sent to the zeros of the result.
  Status Spread(const SparseRows& rows, int members) const {
    std::vector<kernels::Pairs> lists;
    bool finite = true;
    for (int m = 0; m < members; ++m) {
      const float* const values = rows.Values(m, offset_);
      const auto* const positions = reinterpret_cast<const int32_t*>(values + piece_.taken);
      lists.push_back({values, positions, piece_.taken});
      if (!kernels::AreInside(lists.back(), piece_.count)) {
        return Status::Internal("member " + std::to_string(m) +
                                " has sent a position outside of a tensor of " +
                                std::to_string(piece_.count) + " elements");
      }
      finite &= std::all_of(values, values + piece_.taken,
                            [](float value) { return value - value == 0; });
    }
    kernels::AddPairs(lists, factor_, static_cast<float*>(piece_.output));
    if (!finite && piece_.memory != nullptr) Forget(*piece_.memory);
    return Status::Ok();
  }

 private:
  // One stretch. True: all elements.
  bool Clear() {
    const int64_t stretch = std::min(kClearedAtOnce, piece_.count - cleared_);
    std::memset(static_cast<float*>(piece_.output) + cleared_, 0,
                static_cast<size_t>(stretch) * sizeof(float));
    cleared_ += stretch;
    return cleared_ == piece_.count;
  }

  // This step does not enter the memory.
  void Forget(const kernels::Selection& memory) const {
    std::copy_n(memory.residual, piece_.count, memory.new_residual);
    if (memory.velocity != nullptr) std::copy_n(memory.velocity, piece_.count, memory.new_velocity);
  }

  const Piece& piece_;
  const float factor_;
  const int64_t offset_;
  std::unique_ptr<kernels::Selector> selector_;
  int64_t cleared_ = 0;
};

// Consecutive tensors that travel together.
class SparsePart {
 public:
  explicit SparsePart(Batch batch) : batch_(std::move(batch)) {
    for (const Piece& piece : batch_.pieces) {
      tensors_.emplace_back(piece, batch_.reduce, row_);
      row_ += piece.taken * kPair;
    }
  }
  SparsePart(const SparsePart&) = delete;
  SparsePart& operator=(const SparsePart&) = delete;
  int64_t row() const { return row_; }
  // Memory for the rows of all members.
  void Use(char* rows) { rows_ = {rows, row_}; }

  // Works on one stretch. True: the stage is over.
  bool Select(int me) {
    if (tensors_[next_].Select(rows_, me)) ++next_;
    return next_ == tensors_.size();
  }
  Status Spread(int members) const {
    for (const SparseTensor& tensor : tensors_)
      HVDLITE_RETURN_IF_ERROR(tensor.Spread(rows_, members));
    return Status::Ok();
  }

  // The rows of all.
  const Batch& Exchange(int me, int members) {
    exchange_.kind = OpKind::kAllgather;
    Piece piece;
    piece.input = rows_.Values(me, 0);
    piece.output = rows_.Values(0, 0);
    piece.counts.assign(static_cast<size_t>(members), row_);
    exchange_.pieces.push_back(std::move(piece));
    return exchange_;
  }

 private:
  const Batch batch_;
  std::vector<SparseTensor> tensors_;  // of its pieces
  int64_t row_ = 0;                    // bytes
  SparseRows rows_;
  size_t next_ = 0;  // tensor that is being selected from
  Batch exchange_;
};

class SparseWork final : public PartsWork {
 public:
  SparseWork(Communicator* over, const Batch& batch, int me, int members)
      : PartsWork(over, OnlyWhole(batch), me, members) {
    int64_t bytes = 0;
    for (Batch& part : InParts(WithoutWhole(batch))) {
      parts_.push_back(std::make_unique<SparsePart>(std::move(part)));
      bytes += parts_.back()->row() * members;
    }
    char* at = GrowTo(bytes, &over->scratch()->received);
    for (const auto& part : parts_) {
      part->Use(at);
      at += part->row() * members;
    }
  }

 private:
  size_t exchanges() const override { return parts_.size(); }

  const Batch* Exchange(size_t number) override {
    return number < selected_ ? &parts_[number]->Exchange(me(), members()) : nullptr;
  }

  Status WorkHere(bool* worked) override {
    *worked = true;
    if (selected_ < parts_.size()) {
      if (parts_[selected_]->Select(me())) ++selected_;
      return Status::Ok();
    }
    if (spread_ < ended()) return parts_[spread_++]->Spread(members());
    *worked = false;
    return Status::Ok();
  }

  bool has_all() const override { return spread_ == parts_.size(); }

  std::vector<std::unique_ptr<SparsePart>> parts_;
  size_t selected_ = 0, spread_ = 0;  // so many parts have been
};

}  // namespace

std::unique_ptr<Work> StartSparse(Communicator* over, const Batch& batch, int me, int members) {
  if (CarrierCounts* const carrier_counts = over->carrier_counts()) {
    uint64_t elements = 0;
    uint64_t taken = 0;
    for (const Piece& piece : batch.pieces) {
      if (piece.whole) continue;
      elements += static_cast<uint64_t>(piece.count);
      taken += static_cast<uint64_t>(piece.taken);
    }
    const auto others = static_cast<uint64_t>(members - 1);
    carrier_counts->Count(Carrier::kSparse, batch.kind);
    carrier_counts->CountEncoded(elements * sizeof(float) * others, taken * kPair * others);
  }
  return std::make_unique<SparseWork>(over, batch, me, members);
}

}  // namespace hvdlite::comm::compressed
