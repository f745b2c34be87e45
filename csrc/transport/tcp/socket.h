// TCP sockets: resolves names, connects, listens, accepts, and reads and writes until a deadline.
//
// Every socket made here is non-blocking, close-on-exec and TCP_NODELAY. Functions named Wait...,
// ReadFull, WriteFull and Connect block until their deadline at most; Try... never blocks.
// Thread-safety: free functions; an Fd belongs to one thread. Failure: a Status whose sentence says
// which peer, where, and what the system said. The code is kTimeout for a passed deadline and kIo
// for everything else. Higher layers know which peer a socket belongs to, and make kPeerLost of it.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"

namespace hvdlite::transport::tcp {

// A host (name or number, without brackets) and a port. Written "10.0.0.5:80", "node1:80" or
// "[::1]:80".
struct Endpoint {
  std::string host;
  uint16_t port = 0;
  std::string ToString() const;
  bool operator==(const Endpoint&) const = default;
};
// Requires a host and a port. "::1:80" is refused, because it is ambiguous where the address ends.
Status ParseEndpoint(std::string_view text, Endpoint* endpoint);

// A numeric address with its port, as the system wants it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  Endpoint ToEndpoint() const;
};
// Numbers never block. Names are looked up in a thread of their own, because getaddrinfo has no
// deadline; a look-up that is not done by then is abandoned. OK means at least one address, in
// getaddrinfo's order.
Status Resolve(const Endpoint& endpoint, Deadline deadline, std::vector<SocketAddress>* addresses);

// Tries each address of the endpoint once, one after the other, each with its share of the time
// left.
Status Connect(const Endpoint& endpoint, Deadline deadline, Fd* fd);
// The error of a failed connection to `where`, with advice where the system's text needs it.
Status CannotConnect(const std::string& where, int error);

// An algorithm that paces its packets (BBR, the default of some systems) sets a timer for each. On
// a short way that can double the time of a transfer. StopPacing chooses Reno in its place, which
// every kernel has and every user may choose. Call it before connect(), or on a listener: pacing
// that has begun does not end. PaceIfFar gives a connection with a long way the system's algorithm
// back. If the kernel refuses, the connection is slower and nothing else.
void StopPacing(int fd);
void PaceIfFar(int fd);

// Makes a socket send and receive through this interface only. Linux allows it without privileges
// since 5.7.
Status BindToInterface(int fd, const std::string& interface);

// Listens on one address of this machine and on no other. If port 0 is requested, `bound` has the
// real port. An empty host is refused: for every interface write 0.0.0.0 or ::.
// `interface`: if not empty, see BindToInterface.
Status Listen(const Endpoint& endpoint, int backlog, Fd* listener, Endpoint* bound,
              const std::string& interface = "");

// OK and an invalid *fd when no connection is waiting.
Status TryAccept(int listener, Fd* fd, Endpoint* peer);
Status WaitAccept(int listener, Deadline deadline, Fd* fd, Endpoint* peer);

// Waits until poll(2) reports one of `events`, or an error or hang-up, which the next call on fd
// then reports. *ready is false when the deadline passed first.
Status WaitFor(int fd, short events, Deadline deadline, bool* ready);

// Moves exactly `bytes` bytes. `who` names the other side in errors: "the store at 10.0.0.5:80".
Status ReadFull(int fd, void* data, size_t bytes, Deadline deadline, const std::string& who);
Status WriteFull(int fd, const void* data, size_t bytes, Deadline deadline, const std::string& who);

// The addresses of the two ends of a connected socket.
Status LocalEndpoint(int fd, Endpoint* endpoint);
Status PeerEndpoint(int fd, Endpoint* endpoint);

}  // namespace hvdlite::transport::tcp
