#include "comm/parts_work.h"

namespace hvdlite::comm {

namespace {

// Stretches of local work between two polls of slow links: a poll is two system calls for each
// peer, which seldom find anything there.
constexpr int kStretchesPerPoll = 4;

}  // namespace

PartsWork::PartsWork(Communicator* over, Batch whole) : over_(over), whole_(std::move(whole)) {
  if (!whole_.pieces.empty()) whole_travels_ = over->Start(whole_);
}

Progress PartsWork::Travel() {
  if (whole_travels_ != nullptr) {
    const Progress progress = whole_travels_->Advance();
    if (progress == Progress::kFailed) return Fail(whole_travels_->status());
    if (progress != Progress::kDone) return progress;
    whole_travels_.reset();
  }
  if (exchanges_ == nullptr) exchanges_ = over_->StartExchanges();
  while (const Batch* next = NextExchange()) exchanges_->Add(*next);
  const Progress progress = exchanges_->Advance();
  return progress == Progress::kFailed ? Fail(exchanges_->status()) : progress;
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
  if (whole_travels_ == nullptr && has_all()) return Progress::kDone;
  return travels == Progress::kDone ? Progress::kSome : travels;
}

}  // namespace hvdlite::comm
