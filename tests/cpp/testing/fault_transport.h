// FaultTransport: a Transport that behaves as badly as a network may: calls that move only a part,
// calls that move nothing, and an end after so many bytes. The faults follow from the seed alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "transport/transport.h"

namespace hvdlite::testing {

struct Faults {
  uint32_t seed = 1;
  double stall = 0;              // probability that a call moves nothing
  size_t most = SIZE_MAX;        // a call moves 1..most bytes, at random
  double nap = 0;                // probability that a call first lets other threads run
  size_t lost_after = SIZE_MAX;  // bytes received, after which the peer is gone
};

class FaultTransport : public transport::Transport {
 public:
  FaultTransport(std::unique_ptr<transport::Transport> inner, Faults faults)
      : inner_(std::move(inner)), faults_(faults), random_(faults.seed) {}

  Status TrySend(const void* data, size_t bytes, size_t* moved) override {
    *moved = 0;
    HVDLITE_RETURN_IF_ERROR(Lost());
    const size_t part = Part(bytes);
    return part == 0 ? Status::Ok() : inner_->TrySend(data, part, moved);
  }

  Status TryReceive(void* data, size_t bytes, size_t* moved) override {
    *moved = 0;
    HVDLITE_RETURN_IF_ERROR(Lost());
    const size_t part = Part(std::min(bytes, faults_.lost_after - received_));
    if (part == 0) return Status::Ok();
    HVDLITE_RETURN_IF_ERROR(inner_->TryReceive(data, part, moved));
    received_ += *moved;
    return Status::Ok();
  }

  bool ended() const override { return inner_->ended(); }
  int peer() const override { return inner_->peer(); }
  int fd() const override { return inner_->fd(); }
  void AddPollFds(short events, std::vector<pollfd>* fds) const override {
    inner_->AddPollFds(events, fds);
  }
  size_t received() const { return received_; }

 private:
  Status Lost() const {
    if (received_ < faults_.lost_after) return Status::Ok();
    return Status::PeerLost(peer(), "rank " + std::to_string(peer()) + " is gone (injected)");
  }

  size_t Part(size_t bytes) {
    std::uniform_real_distribution<double> chance(0, 1);
    if (faults_.nap > 0 && chance(random_) < faults_.nap) std::this_thread::yield();
    if (faults_.stall > 0 && chance(random_) < faults_.stall) return 0;
    if (bytes == 0 || faults_.most == SIZE_MAX) return bytes;
    return std::uniform_int_distribution<size_t>(1, std::min(bytes, faults_.most))(random_);
  }

  std::unique_ptr<transport::Transport> inner_;
  const Faults faults_;
  std::mt19937 random_;
  size_t received_ = 0;
};

}  // namespace hvdlite::testing
