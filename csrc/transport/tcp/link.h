// Link: a Transport over one connected stream socket (TCP between hosts; a socket pair in tests).
//
// Thread-safety and lifetime as for any Transport; owns its descriptor.
// Failure: everything that ends the connection is kPeerLost and names the peer: "rank 3 closed the
// connection". It is final: each later call of that direction returns the same status. A peer's last words are often
// why it left, so a send that fails keeps nobody from receiving what had come before.
//
// One stream per peer. Between two processes of one machine more streams bring nothing (the kernel's copying
// is the limit); where a single stream cannot fill a network card, the hello of docs/wire.md already has a
// stream number.
#pragma once

#include <cstddef>

#include "base/status.h"
#include "transport/tcp/socket.h"
#include "transport/transport.h"

namespace hvdlite::transport::tcp {

class Link final : public Transport {
 public:
  // `fd` is connected and non-blocking. The kernel keeps tuning its buffers to the path (setting SO_SNDBUF or
  // SO_RCVBUF would end that, and no one size suits both a rack and a wide-area network).
  Link(Fd fd, int peer) : fd_(std::move(fd)), peer_(peer) {}

  Status TrySend(const void* data, size_t bytes, size_t* moved) override;
  Status TryReceive(void* data, size_t bytes, size_t* moved) override;
  void EndSending() override;
  int peer() const override { return peer_; }
  int fd() const override { return fd_.get(); }

 private:
  Status Lost(int error) const;

  Fd fd_;
  const int peer_;
  Status sending_;    // why nothing more can be sent
  Status receiving_;  // why nothing more will come
};

}  // namespace hvdlite::transport::tcp
