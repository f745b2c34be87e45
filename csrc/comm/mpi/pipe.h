// Pipe: a Transport between two members of a channel, in small messages. For algorithms that
// were written over transports (Adasum): a copy more on each side than messages from where a tensor
// lies.
#pragma once

#include <array>
#include <vector>

#include "comm/mpi/channel.h"
#include "transport/transport.h"

namespace hvdlite::comm::mpi {

class Pipe final : public transport::Transport {
 public:
  // `member`: of the channel. `peer`: the same as a global rank. Borrows the channel.
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
  std::array<Slot, kInFlight> out_;  // taken in turn
  size_t next_out_ = 0;
  Slot in_;
  const char* arrived_ = nullptr;  // of the message that is being taken, what is left
  size_t left_ = 0;
  size_t coming_ = 0;  // bytes of the message that is being received; 0: none is
};

}  // namespace hvdlite::comm::mpi
