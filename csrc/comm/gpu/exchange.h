// Exchange: each member of a process set sends a text of a fixed length to all others, through the
// host communicator.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "comm/communicator.h"

namespace hvdlite::comm::gpu {

class Exchange {
 public:
  Exchange(comm::Communicator* host, int members, std::string mine);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  Progress Advance() { return work_->Advance(); }
  const Status& status() const { return work_->status(); }
  // The text of `member`, after kDone.
  std::string_view From(int member) const {
    return std::string_view(all_).substr(static_cast<size_t>(member) * mine_.size(), mine_.size());
  }

 private:
  const std::string mine_;
  std::string all_;
  Batch batch_;
  std::unique_ptr<Work> work_;
};

}  // namespace hvdlite::comm::gpu
