#include "comm/sparse_allreduce.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "comm/parts.h"
#include "comm/whole.h"

namespace hvdlite::comm {

namespace {

// Elements that are cleared or copied at a time: tens of microseconds.
constexpr int64_t kCleared = 1 << 17;
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

  // Works on one stretch. True: my row has what I send.
  bool Select(const SparseRows& rows, int me) {
    float* const values = rows.Values(me, offset_);
    if (piece_.memory == nullptr) {
      std::memset(values, 0, static_cast<size_t>(piece_.taken * kPair));
      return true;
    }
    if (selector_ == nullptr) {
      kernels::Selection selection = *piece_.memory;
      selection.count = piece_.count;
      selection.gradient = static_cast<const float*>(piece_.input);
      selection.taken = piece_.taken;
      selection.values = values;
      selection.positions = reinterpret_cast<int32_t*>(values + piece_.taken);
      selector_ = std::make_unique<kernels::Selector>(selection);
    }
    if (!selector_->Step()) return false;
    selector_.reset();
    return true;
  }

  // Works on one stretch. Sets *done if the result is there.
  Status Spread(const SparseRows& rows, int members, bool* done) {
    const int64_t stretch = std::min(kCleared, piece_.count - cleared_);
    float* const output = static_cast<float*>(piece_.output);
    std::memset(output + cleared_, 0, static_cast<size_t>(stretch) * sizeof(float));
    cleared_ += stretch;
    *done = cleared_ == piece_.count;
    if (!*done) return Status::Ok();
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
    kernels::AddPairs(lists, factor_, output);
    if (!finite && piece_.memory != nullptr) Forget(*piece_.memory);
    return Status::Ok();
  }

 private:
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

  // Each call works on one stretch. True, or *done: the stage is over.
  bool Select(int me) {
    if (tensors_[next_].Select(rows_, me)) ++next_;
    if (next_ < tensors_.size()) return false;
    next_ = 0;
    return true;
  }
  Status Spread(int members, bool* done) {
    bool spread = false;
    HVDLITE_RETURN_IF_ERROR(tensors_[next_].Spread(rows_, members, &spread));
    if (spread) ++next_;
    *done = next_ == tensors_.size();
    return Status::Ok();
  }

  std::unique_ptr<Work> Exchange(Communicator* over, int me, int members) {
    exchange_.kind = OpKind::kAllgather;
    Piece piece;
    piece.input = rows_.Values(me, 0);
    piece.output = rows_.Values(0, 0);
    piece.counts.assign(static_cast<size_t>(members), row_);
    exchange_.pieces.push_back(std::move(piece));
    return over->Start(exchange_);
  }

 private:
  const Batch batch_;
  std::vector<SparseTensor> tensors_;  // of its pieces
  int64_t row_ = 0;                    // bytes
  SparseRows rows_;
  size_t next_ = 0;  // tensor of the present stage
  Batch exchange_;
};

class SparseWork final : public Work {
 public:
  SparseWork(Communicator* over, EncodedScratch* scratch, const Batch& batch, int me, int members)
      : over_(over), me_(me), members_(members), whole_(OnlyWhole(batch)) {
    int64_t bytes = 0;
    for (Batch& part : InParts(WithoutWhole(batch))) {
      parts_.push_back(std::make_unique<SparsePart>(std::move(part)));
      bytes += parts_.back()->row() * members;
    }
    char* at = GrowTo(bytes, &scratch->received);
    for (const auto& part : parts_) {
      part->Use(at);
      at += part->row() * members;
    }
    if (!whole_.pieces.empty()) exchange_ = over->Start(whole_);
  }

  Progress Advance() override {
    Progress exchanged = Progress::kNone;
    if (exchange_ != nullptr) {
      exchanged = exchange_->Advance();
      if (exchanged == Progress::kFailed) return Fail(exchange_->status());
      if (exchanged == Progress::kDone) {
        exchange_.reset();
        arrived_ = started_;
      }
    }
    if (exchange_ == nullptr && started_ < selected_) {
      exchange_ = parts_[started_++]->Exchange(over_, me_, members_);
      return Progress::kSome;
    }
    // After each step of the exchange a stretch of local work: first what others wait for.
    if (selected_ < parts_.size()) {
      if (parts_[selected_]->Select(me_)) ++selected_;
      return Progress::kSome;
    }
    if (spread_ < arrived_) {
      bool done = false;
      Status status = parts_[spread_]->Spread(members_, &done);
      if (!status.ok()) return Fail(std::move(status));
      if (done) ++spread_;
      return Progress::kSome;
    }
    return exchange_ == nullptr ? Progress::kDone : exchanged;
  }

 private:
  Communicator* const over_;
  const int me_, members_;
  const Batch whole_;
  std::vector<std::unique_ptr<SparsePart>> parts_;
  std::unique_ptr<Work> exchange_;  // the one under way
  // So many parts have been selected, their exchange has been started, ...
  size_t selected_ = 0, started_ = 0, arrived_ = 0, spread_ = 0;
};

}  // namespace

std::unique_ptr<Work> SparseAllreduce(Communicator* over, EncodedScratch* scratch, Carried* carried,
                                      const Batch& batch, int me, int members) {
  if (carried != nullptr) {
    uint64_t elements = 0;
    uint64_t taken = 0;
    for (const Piece& piece : batch.pieces) {
      if (piece.whole) continue;
      elements += static_cast<uint64_t>(piece.count);
      taken += static_cast<uint64_t>(piece.taken);
    }
    const auto others = static_cast<uint64_t>(members - 1);
    carried->Count(Carrier::kSparse, batch.kind);
    carried->CountEncoded(elements * sizeof(float) * others, taken * kPair * others);
  }
  return std::make_unique<SparseWork>(over, scratch, batch, me, members);
}

}  // namespace hvdlite::comm
