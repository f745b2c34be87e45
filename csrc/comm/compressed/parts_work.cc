#include "comm/compressed/parts_work.h"

#include <algorithm>
#include <deque>

namespace hvdlite::comm::compressed {

namespace {

// Stretches of local work between two polls of slow links: a poll is two system calls for each
// peer, which seldom find anything there.
constexpr int kStretchesPerPoll = 4;
// Exchanges of parts that are under way while members add up whole tensors.
constexpr size_t kBeforeWholeResults = 2;

// Exchanges of a communicator that has one batch under way at a time.
class OneByOne final : public Exchanges {
 public:
  explicit OneByOne(Communicator* over) : over_(over) {}
  void Add(const Batch& batch) override { waiting_.push_back(&batch); }

  Progress Advance() override {
    if (waiting_.empty()) return Progress::kDone;
    if (work_ == nullptr) work_ = over_->Start(*waiting_.front());
    const Progress progress = work_->Advance();
    if (progress == Progress::kFailed) return Fail(work_->status());
    if (progress != Progress::kDone) return progress;
    work_.reset();
    waiting_.pop_front();
    EndOne();
    return Progress::kSome;
  }

 private:
  Communicator* const over_;
  std::deque<const Batch*> waiting_;
  std::unique_ptr<Work> work_;  // of the first one
};

}  // namespace

PartsWork::PartsWork(Communicator* over, Batch whole, int me, int members)
    : over_(over), me_(me), members_(members), whole_(std::move(whole)) {
  if (whole_.pieces.empty()) return;
  if (members > 1 && !over->has_levels() && Inputs(whole_).size() <= WholeTensors::kMost)
    exchanges_ = over->StartExchanges();
  if (exchanges_ != nullptr) {
    among_them_ = std::make_unique<WholeTensors>(whole_, over->scratch(), me, members);
  } else {
    whole_travels_ = over->Start(whole_);
  }
}

size_t PartsWork::WholeResultsAt() const {
  return 1 + std::min(kBeforeWholeResults, exchanges());
}

size_t PartsWork::OfParts(size_t exchanges) const {
  if (among_them_ == nullptr || exchanges == 0) return exchanges;
  return exchanges > WholeResultsAt() ? exchanges - 2 : exchanges - 1;
}

size_t PartsWork::ended() const {
  return exchanges_ == nullptr ? 0 : OfParts(exchanges_->ended());
}

const Batch* PartsWork::Next() {
  if (among_them_ != nullptr && added_ == 0) return &among_them_->Contributions();
  if (among_them_ != nullptr && added_ == WholeResultsAt())
    return exchanges_->ended() > 0 ? &among_them_->Results() : nullptr;
  const size_t number = OfParts(added_);
  return number < exchanges() ? Exchange(number) : nullptr;
}

Progress PartsWork::Travel() {
  if (whole_travels_ != nullptr) {
    const Progress progress = whole_travels_->Advance();
    if (progress == Progress::kFailed) return Fail(whole_travels_->status());
    if (progress != Progress::kDone) return progress;
    whole_travels_.reset();
  }
  if (exchanges_ == nullptr) exchanges_ = over_->StartExchanges();
  if (exchanges_ == nullptr) exchanges_ = std::make_unique<OneByOne>(over_);
  for (const Batch* next = Next(); next != nullptr; next = Next()) {
    exchanges_->Add(*next);
    ++added_;
  }
  const Progress progress = exchanges_->Advance();
  if (progress == Progress::kFailed) return Fail(exchanges_->status());
  if (among_them_ != nullptr && !whole_arrived_ && exchanges_->ended() > WholeResultsAt()) {
    among_them_->Finish();
    whole_arrived_ = true;
  }
  return progress;
}

Progress PartsWork::Advance() {
  const Progress travels = Travel();
  if (travels == Progress::kFailed) return travels;
  const int most = travels != Progress::kDone && over_->slow() ? kStretchesPerPoll : 1;
  for (int stretches = 0; stretches < most; ++stretches) {
    bool worked = false;
    if (Status status = WorkHere(&worked); !status.ok()) return Fail(std::move(status));
    if (!worked) return stretches > 0 ? Progress::kSome : Result(travels);
  }
  return Progress::kSome;
}

// kDone of the exchanges: none is under way, and others may follow.
Progress PartsWork::Result(Progress travels) const {
  const bool has_whole = whole_travels_ == nullptr && (among_them_ == nullptr || whole_arrived_);
  if (has_whole && has_all()) return Progress::kDone;
  return travels == Progress::kDone ? Progress::kSome : travels;
}

}  // namespace hvdlite::comm::compressed
