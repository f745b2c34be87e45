#include "transport/tcp/link.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace hvdlite::transport::tcp {

Status Link::TrySend(const void* data, size_t bytes, size_t* moved) {
  *moved = 0;
  if (!sending_.ok()) return sending_;
  if (bytes == 0) return Status::Ok();
  while (true) {
    const ssize_t n = send(fd_.get(), data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      *moved = static_cast<size_t>(n);
      return Status::Ok();
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Status::Ok();
    if (errno != EINTR) return sending_ = Lost(errno);
  }
}

Status Link::TryReceive(void* data, size_t bytes, size_t* moved) {
  *moved = 0;
  if (!receiving_.ok()) return receiving_;
  if (bytes == 0) return Status::Ok();  // recv() would return 0, which means "closed" otherwise
  while (true) {
    const ssize_t n = recv(fd_.get(), data, bytes, MSG_DONTWAIT);
    if (n > 0) {
      *moved = static_cast<size_t>(n);
      return Status::Ok();
    }
    if (n == 0) return sending_ = receiving_ = Lost(0);
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Status::Ok();
    if (errno != EINTR) return sending_ = receiving_ = Lost(errno);
  }
}

void Link::EndSending() {
  shutdown(fd_.get(), SHUT_WR);
}

// 0: the peer closed its end in good order, as a process does that exits or is killed.
Status Link::Lost(int error) const {
  const std::string rank = "rank " + std::to_string(peer_);
  if (error == 0 || error == ECONNRESET || error == EPIPE) {
    return Status::PeerLost(peer_, rank + " closed the connection: its process has ended or given up");
  }
  return Status::PeerLost(peer_, "the connection with " + rank + " failed: " + std::strerror(error));
}

}  // namespace hvdlite::transport::tcp
