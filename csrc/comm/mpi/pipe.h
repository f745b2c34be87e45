// Pipe: a Transport between two members of a channel, in small messages. It is for algorithms that
// work over transports (Adasum). It costs one more copy on each side than sending a tensor from its
// own memory.
#pragma once

#include <array>
#include <vector>

#include "comm/mpi/channel.h"
#include "transport/transport.h"

namespace hvdlite::comm::mpi {

class Pipe final : public transport::Transport {
 public:
  // `member` is the peer's number in the channel, `peer` its global rank. Borrows the channel.
  Pipe(Channel* channel, int member, int peer);

  Status TrySend(const void* data, size_t bytes, size_t* moved) override;
  Status TryReceive(void* data, size_t bytes, size_t* moved) override;
  int peer() const override { return peer_; }
  int fd() const override { return -1; }

 private:
  static constexpr size_t kMessageBytes = 64 << 10;
  static constexpr size_t kInFlight = 4;

  Channel& channel_;
  const int member_;
  const int peer_;
  std::array<Slot, kInFlight> out_;  // used in turn
  size_t next_out_ = 0;
  Slot in_;
  const char* arrived_ = nullptr;  // the rest of the message that is being read
  size_t left_ = 0;
  size_t coming_ = 0;  // bytes of the message being received; 0: none
};

}  // namespace hvdlite::comm::mpi
