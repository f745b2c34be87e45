// Exchanges: alltoalls and allgathers of bytes, one after the other on each link.
//
// All members add the same exchanges in the same order. Several may be under way. On each link a
// member sends the bytes of the next exchange once those of the present one have left, although
// other peers may be late. So the links have work while members compute.
// Thread-safety and failure are those of a Work. Its destructor touches no batch.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>

#include "comm/communicator.h"

namespace hvdlite::comm {

class Exchanges : public Work {
 public:
  // `batch` must not change before the exchange has ended. Its inputs are there.
  virtual void Add(const Batch& batch) = 0;
  // How many have ended, in the order in which they were added.
  size_t ended() const { return ended_; }
  // Moves some bytes. kDone: none is under way.
  Progress Advance() override = 0;

 protected:
  void EndOne() { ++ended_; }

 private:
  size_t ended_ = 0;
};

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

}  // namespace hvdlite::comm
