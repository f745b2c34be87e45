// Loopback: two Transports that are the ends of one pipe in memory. One thread at a time.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "transport/transport.h"

namespace hvdlite::testing {

class Loopback final : public transport::Transport {
 public:
  // `capacity`: bytes in flight per direction.
  static std::pair<std::unique_ptr<Loopback>, std::unique_ptr<Loopback>> Pair(
      int rank_a, int rank_b, size_t capacity = SIZE_MAX) {
    auto ab = std::make_shared<std::string>(), ba = std::make_shared<std::string>();
    return {std::unique_ptr<Loopback>(new Loopback(rank_b, ab, ba, capacity)),
            std::unique_ptr<Loopback>(new Loopback(rank_a, ba, ab, capacity))};
  }

  Status TrySend(const void* data, size_t bytes, size_t* moved) override {
    *moved = std::min(bytes, capacity_ - std::min(capacity_, out_->size()));
    out_->append(static_cast<const char*>(data), *moved);
    return Status::Ok();
  }
  Status TryReceive(void* data, size_t bytes, size_t* moved) override {
    *moved = std::min(bytes, in_->size());
    memcpy(data, in_->data(), *moved);
    in_->erase(0, *moved);
    return Status::Ok();
  }
  int peer() const override { return peer_; }
  int fd() const override { return -1; }

 private:
  Loopback(int peer, std::shared_ptr<std::string> out, std::shared_ptr<std::string> in,
           size_t capacity)
      : peer_(peer), out_(std::move(out)), in_(std::move(in)), capacity_(capacity) {}
  const int peer_;
  const std::shared_ptr<std::string> out_, in_;
  const size_t capacity_;
};

}  // namespace hvdlite::testing
