// FailedWork: the Work of a batch that cannot begin. It fails at once.
#pragma once

#include <utility>

#include "comm/communicator.h"

namespace hvdlite::comm {

class FailedWork final : public Work {
 public:
  explicit FailedWork(Status why) : why_(std::move(why)) {}
  Progress Advance() override { return Fail(why_); }

 private:
  const Status why_;
};

}  // namespace hvdlite::comm
