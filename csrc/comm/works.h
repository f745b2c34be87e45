// Works that several communicators use.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "comm/communicator.h"

namespace hvdlite::comm {

// The Work of a batch that cannot begin. It fails at once.
class FailedWork final : public Work {
 public:
  explicit FailedWork(Status why) : why_(std::move(why)) {}
  Progress Advance() override { return Fail(why_); }

 private:
  const Status why_;
};

// Several Works performed one after another, each created when it is due. All members must list the
// same ones. A starter may add steps at the end.
class Sequence : public Work {
 public:
  // A null Work means that nothing is left to do in this step. The function may do local work
  // itself.
  using Starter = std::function<std::unique_ptr<Work>()>;

  Progress Advance() final {
    if (current_ == nullptr) {
      if (next_ == starters_.size()) return Progress::kDone;
      current_ = starters_[next_++]();
      if (current_ == nullptr) return next_ == starters_.size() ? Progress::kDone : Progress::kSome;
    }
    const Progress progress = current_->Advance();
    if (progress == Progress::kFailed) return Fail(current_->status());
    if (progress != Progress::kDone) return progress;
    current_.reset();
    return next_ == starters_.size() ? Progress::kDone : Progress::kSome;
  }

 protected:
  void Then(Starter starter) { starters_.push_back(std::move(starter)); }

 private:
  std::deque<Starter> starters_;  // whose elements stay where they are
  size_t next_ = 0;
  std::unique_ptr<Work> current_;
};

}  // namespace hvdlite::comm
