// A peer that says what the fuzzer wants, in pieces of odd sizes, and swallows what it is told.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "transport/transport.h"

namespace hvdlite::fuzz {

class ScriptedTransport final : public transport::Transport {
 public:
  ScriptedTransport(const uint8_t* data, size_t size, int peer)
      : data_(data), left_(size), peer_(peer) {}

  Status TrySend(const void*, size_t bytes, size_t* moved) override {
    *moved = bytes;
    return Status::Ok();
  }
  Status TryReceive(void* data, size_t bytes, size_t* moved) override {
    step_ = step_ * 5 % 37 + 1;
    *moved = std::min({bytes, left_, step_});
    if (*moved > 0) memcpy(data, data_, *moved);
    data_ += *moved;
    left_ -= *moved;
    return Status::Ok();
  }
  int peer() const override { return peer_; }
  int fd() const override { return -1; }
  bool done() const { return left_ == 0; }

 private:
  const uint8_t* data_;
  size_t left_;
  size_t step_ = 1;
  const int peer_;
};

}  // namespace hvdlite::fuzz
