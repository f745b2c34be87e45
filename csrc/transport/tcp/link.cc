#include "transport/tcp/link.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace hvdlite::transport::tcp {

// The name is made now, because a connection that has failed no longer knows its other end.
Link::Link(Fd fd, int peer, int me, const std::string& interface)
    : fd_(std::move(fd)), peer_(peer), me_(me) {
  int domain = AF_UNIX;
  socklen_t length = sizeof(domain);
  is_tcp_ =
      getsockopt(fd_.get(), SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain != AF_UNIX;
  Endpoint here, there;
  const bool placed =
      is_tcp_ && LocalEndpoint(fd_.get(), &here).ok() && PeerEndpoint(fd_.get(), &there).ok();
  const auto end = [&](int rank, const std::string& at) {
    return "rank " + std::to_string(rank) + (placed ? " (" + at + ")" : "");
  };
  const std::string through = here.host + (interface.empty() ? "" : ", " + interface);
  if (is_tcp_) PaceIfFar(fd_.get());
  name_ = (me < 0 ? "the connection" : "the connection of " + end(me, through)) + " with " +
          end(peer, there.host);
}

Status Link::TrySend(const void* data, size_t bytes, size_t* moved) {
  const iovec part{const_cast<void*>(data), bytes};
  return SendParts(&part, 1, moved);
}

Status Link::TrySendBoth(const iovec (&parts)[2], size_t* moved) {
  return SendParts(parts, 2, moved);
}

Status Link::TryReceive(void* data, size_t bytes, size_t* moved) {
  const iovec part{data, bytes};
  return ReceiveParts(&part, 1, moved);
}

Status Link::TryReceiveBoth(const iovec (&parts)[2], size_t* moved) {
  return ReceiveParts(parts, 2, moved);
}

Status Link::SendParts(const iovec* parts, size_t count, size_t* moved) {
  *moved = 0;
  if (!sending_.ok()) return sending_;
  if (parts[0].iov_len == 0) return Status::Ok();
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts);
  message.msg_iovlen = count;
  while (true) {
    const ssize_t n = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      *moved = static_cast<size_t>(n);
      sent_ += *moved;
      return Status::Ok();
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Status::Ok();
    if (errno != EINTR) return sending_ = Lost(errno);
  }
}

Status Link::ReceiveParts(const iovec* parts, size_t count, size_t* moved) {
  *moved = 0;
  if (!receiving_.ok()) return receiving_;
  // For an empty first part recvmsg() would return 0, which otherwise means "closed".
  if (parts[0].iov_len == 0) return Status::Ok();
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts);
  message.msg_iovlen = count;
  while (true) {
    const ssize_t n = recvmsg(fd_.get(), &message, MSG_DONTWAIT);
    if (n > 0) {
      *moved = static_cast<size_t>(n);
      return Status::Ok();
    }
    if (n == 0) {
      ended_ = true;
      return sending_ = receiving_ = Lost(0);
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Status::Ok();
    if (errno != EINTR) return sending_ = receiving_ = Lost(errno);
  }
}

void Link::WakeAt(size_t bytes) {
  const int least = static_cast<int>(std::clamp<size_t>(bytes, 1, 1 << 30));
  if (least == wakes_at_) return;
  if (setsockopt(fd_.get(), SOL_SOCKET, SO_RCVLOWAT, &least, sizeof(least)) == 0) wakes_at_ = least;
}

void Link::EndSending() {
  shutdown(fd_.get(), SHUT_WR);
}

// Bytes are waiting once they have left this machine. Bytes that stay here because the peer reads
// nothing do not count.
Transport::Acknowledged Link::acknowledged() const {
  int queued = 0, unsent = 0;
  if (!is_tcp_ || ioctl(fd_.get(), SIOCOUTQ, &queued) != 0 ||
      ioctl(fd_.get(), SIOCOUTQNSD, &unsent) != 0)
    return {};
  const auto left = static_cast<uint64_t>(queued);
  return {true, sent_ - left, queued > unsent, left};
}

// An error of 0 means that the peer closed its end in good order, as happens when its process exits
// or is killed.
Status Link::Lost(int error) const {
  const std::string rank = "rank " + std::to_string(peer_);
  if (error == 0 || error == ECONNRESET || error == EPIPE) {
    return Status::PeerLost(Cause::kClosed, {peer_},
                            rank + " closed the connection: its process has ended or given up");
  }
  std::vector<int> ranks{peer_};
  if (me_ >= 0) ranks.push_back(me_);
  return Status::PeerLost(Cause::kNetwork, std::move(ranks),
                          name_ + " failed: " + std::strerror(error));
}

}  // namespace hvdlite::transport::tcp
