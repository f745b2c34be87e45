// Link: a Transport over one connected stream socket (TCP between hosts; a socket pair in tests).
//
// Thread-safety and lifetime as for any Transport; owns its descriptor. Failure: any end of the
// connection is kPeerLost and names the peer: "rank 3 closed the connection". The failure is final:
// each later call of that direction returns the same status. A peer's final message often says why
// it left, so a send that fails does not prevent receiving bytes that arrived before.
//
// There is one link per peer and network interface. Between two processes of one machine more would
// bring nothing, because the kernel's copying is the limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "transport/tcp/socket.h"
#include "transport/transport.h"

namespace hvdlite::transport::tcp {

class Link final : public Transport {
 public:
  // `fd` is connected and non-blocking. The kernel tunes its buffers to the path. Setting SO_SNDBUF
  // or SO_RCVBUF would end that, and no one size suits both a rack and a wide-area network. `me` is
  // this end's rank, for messages, or -1 if unknown; `interface`: this end's, if there are several.
  Link(Fd fd, int peer, int me = -1, const std::string& interface = "");

  Status TrySend(const void* data, size_t bytes, size_t* moved) override;
  Status TryReceive(void* data, size_t bytes, size_t* moved) override;
  Status TrySendBoth(const iovec (&parts)[2], size_t* moved) override;
  Status TryReceiveBoth(const iovec (&parts)[2], size_t* moved) override;
  void WakeAt(size_t bytes) override;
  void EndSending() override;
  std::string Name() const override { return name_; }
  Acknowledged acknowledged() const override;
  bool ended() const override { return ended_; }
  int peer() const override { return peer_; }
  int fd() const override { return fd_.get(); }

 private:
  Status SendParts(const iovec* parts, size_t count, size_t* moved);
  Status ReceiveParts(const iovec* parts, size_t count, size_t* moved);
  Status Lost(int error) const;

  Fd fd_;
  const int peer_, me_;
  bool is_tcp_ = false;  // else a socket pair
  std::string name_;
  int wakes_at_ = 1;
  uint64_t sent_ = 0;  // bytes that the kernel has taken
  Status sending_;     // why nothing more can be sent
  Status receiving_;   // why nothing more will come
  bool ended_ = false;
};

}  // namespace hvdlite::transport::tcp
