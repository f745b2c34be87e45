#include "comm/shm/in_place.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "comm/flat.h"
#include "comm/shm/pipeline.h"

namespace hvdlite::comm::shm {
namespace {

// Of each member's tensor, for one call of Advance().
constexpr size_t kPassBytes = 256 << 10;
// What is copied to further members while it is in the nearest cache.
constexpr size_t kHotBytes = 8 << 10;

class InPlace final : public Work {
 public:
  InPlace(Region* region, const SharedTensors& shared, const Batch& batch, StartRest start_rest,
          std::function<void(bool)> heard)
      : region_(region),
        step_(region->next_step++),
        shared_(shared),
        batch_(batch),
        start_rest_(std::move(start_rest)),
        heard_(std::move(heard)),
        size_of_(SizeOf(batch.dtype)),
        offsets_(batch.pieces.size() * Members()),
        tensors_(Members()),
        sources_(Members()) {}

  // Another member may still be in its pass, and the program gets its tensors back now.
  ~InPlace() override {
    if (!lends_) return;
    if (!region_->AllReached(Flag::kMid, step_ + 1)) shared_.peers->own()->Retire();
    StopLending();
  }

  Progress Advance() override {
    switch (stage_) {
      case Stage::kTell:
        if (step_ >= Region::kSlots && !region_->AllReached(Flag::kOut, step_ + 1 - Region::kSlots))
          return Progress::kNone;
        Tell();
        return Enter(Stage::kHear);
      case Stage::kHear: {
        if (!region_->AllReached(Flag::kIn, step_ + 1)) return Progress::kNone;
        const Status heard = Hear();
        return heard.ok() ? Enter(Stage::kPass) : Fail(heard);
      }
      case Stage::kPass:
        if (piece_ < batch_.pieces.size()) return ReduceSome();
        region_->Post(Flag::kMid, step_ + 1);
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
      case Stage::kEnd:
        return region_->AllReached(Flag::kMid, step_ + 1) ? Progress::kDone : Progress::kNone;
    }
    return Progress::kNone;
  }

 private:
  enum class Stage : uint8_t { kTell, kHear, kPass, kRest, kEnd };

  size_t Members() const { return static_cast<size_t>(region_->members()); }
  size_t BytesOf(const Piece& piece) const { return static_cast<size_t>(piece.count) * size_of_; }
  int64_t* TableOf(size_t member) { return offsets_.data() + member * batch_.pieces.size(); }

  Progress Enter(Stage stage) {
    stage_ = stage;
    return Progress::kSome;
  }

  void StopLending() {
    shared_.peers->own()->EndLending();
    lends_ = false;
  }

  void Tell() {
    lends_ = shared_.peers->own() != nullptr;
    if (lends_) shared_.peers->own()->BeginLending();
    int64_t* const mine = TableOf(static_cast<size_t>(region_->me()));
    bool lent = false;
    for (size_t i = 0; i < batch_.pieces.size(); ++i) {
      const Piece& piece = batch_.pieces[i];
      const bool in_place = piece.input == piece.output && piece.count > 0;
      mine[i] = in_place ? shared_.peers->Lend(piece.output, BytesOf(piece)) : -1;
      lent |= mine[i] >= 0;
    }
    if (lends_ && !lent) StopLending();
    memcpy(region_->Slot(region_->me(), step_), mine, batch_.pieces.size() * sizeof(int64_t));
    region_->Post(Flag::kIn, step_ + 1);
  }

  // Reads all tables, once, and sorts the tensors.
  Status Hear() {
    const size_t bytes = batch_.pieces.size() * sizeof(int64_t);
    for (size_t m = 0; m < Members(); ++m) {
      if (static_cast<int>(m) == region_->me()) continue;
      memcpy(TableOf(m), region_->Slot(static_cast<int>(m), step_), bytes);
    }
    region_->Post(Flag::kOut, step_ + 1);
    bool any = false;
    CopyOperation();
    for (size_t i = 0; i < batch_.pieces.size(); ++i) {
      if (!Shared(i)) {
        rest_batch_.pieces.push_back(batch_.pieces[i]);
        continue;
      }
      any = true;
      for (size_t m = 0; m < Members(); ++m) {
        if (Tensor(m, i) == nullptr) return Outside(m);
      }
    }
    heard_(any);
    return Status::Ok();
  }

  void CopyOperation() {
    rest_batch_.kind = batch_.kind;
    rest_batch_.dtype = batch_.dtype;
    rest_batch_.reduce = batch_.reduce;
    rest_batch_.device = batch_.device;
  }

  Status Outside(size_t member) const {
    return Status::Internal("local rank " + std::to_string(shared_.local_ranks[member]) +
                            " named a gradient outside its shared memory; do all ranks run the "
                            "same version of hvdlite?");
  }

  bool Shared(size_t piece) {
    for (size_t m = 0; m < Members(); ++m) {
      if (TableOf(m)[piece] < 0) return false;
    }
    return true;
  }

  char* Tensor(size_t member, size_t piece) {
    return shared_.peers->At(shared_.local_ranks[member], TableOf(member)[piece],
                             BytesOf(batch_.pieces[piece]));
  }

  // The next part of my share of the tensor that has its turn: whole cache lines, as equal shares
  // as they come.
  Progress ReduceSome() {
    if (!Shared(piece_)) return NextPiece();
    const size_t bytes = BytesOf(batch_.pieces[piece_]);
    const size_t lines = (bytes + kLine - 1) / kLine;
    const auto edge = [&](int member) {
      return std::min(PartBegin(lines, region_->members(), member) * kLine, bytes);
    };
    const size_t begin = edge(region_->me()) + done_;
    const size_t end = edge(region_->me() + 1);
    if (begin >= end) return NextPiece();
    const size_t stop = std::min(end, begin + kPassBytes);
    const size_t hot = Members() > 2 ? kHotBytes : kPassBytes;
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
    for (size_t m = 0; m < Members(); ++m) sources_[m] = tensors_[m] = Tensor(m, piece_) + at;
    kernels::Reduce(batch_.reduce, tensors_[0], tensors_[1], sources_.data(), region_->members(),
                    static_cast<int64_t>(bytes / size_of_));
    for (size_t m = 2; m < Members(); ++m) memcpy(tensors_[m], tensors_[0], bytes);
  }

  Region* const region_;
  const uint64_t step_;
  const SharedTensors& shared_;
  const Batch& batch_;
  const StartRest start_rest_;
  const std::function<void(bool)> heard_;
  const size_t size_of_;
  Stage stage_ = Stage::kTell;
  // Between BeginLending() and EndLending(): others may write into my tensors until all have said
  // `mid`.
  bool lends_ = false;
  std::vector<int64_t> offsets_;  // of each member, of each piece; negative: elsewhere
  std::vector<char*> tensors_;    // of each member, during one call
  std::vector<const void*> sources_;
  size_t piece_ = 0;
  size_t done_ = 0;  // bytes of my share of that piece
  Batch rest_batch_;
  std::unique_ptr<Work> rest_;
};

}  // namespace

std::unique_ptr<Work> StartInPlace(Region* region, const SharedTensors& shared, const Batch& batch,
                                   StartRest start_rest, std::function<void(bool)> heard) {
  return std::make_unique<InPlace>(region, shared, batch, std::move(start_rest), std::move(heard));
}

}  // namespace hvdlite::comm::shm
