#include "transport/tcp/socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

namespace hvdlite::transport::tcp {
namespace {

// poll(2) takes an int of milliseconds, so longer waits are made of several of these.
constexpr int kPollMillis = 60 * 1000;
// The time for one of several addresses of a host: enough for one or two lost SYNs, which are
// repeated after 1 s and 3 s.
constexpr Nanos kAddressSpan = 10 * kSecond;

Status Configure(int fd, const std::string& where) {
  const int on = 1;
  if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0) {
    return Status::FromErrno("cannot set TCP_NODELAY on the connection with " + where, errno);
  }
  return Status::Ok();
}

// Empty if unknown.
std::string CongestionControl(int fd) {
  char name[32] = {};
  socklen_t length = sizeof(name) - 1;
  return getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0 ? name : "";
}

void SetCongestionControl(int fd, const std::string& name) {
  setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.c_str(), static_cast<socklen_t>(name.size()));
}

}  // namespace

Status CannotConnect(const std::string& where, int error) {
  const Status status = Status::FromErrno("cannot connect to " + where, error);
  if (error != EADDRNOTAVAIL) return status;
  return Status(
      status.code(),
      status.message() +
          ": this machine has no free port left (net.ipv4.ip_local_port_range), or no address "
          "of that kind");
}

namespace {

Status ConnectOne(const SocketAddress& address, Deadline deadline, Fd* fd) {
  const std::string where = address.ToEndpoint().ToString();
  Fd made(socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made.valid()) return Status::FromErrno("cannot make a socket to connect to " + where, errno);
  HVDLITE_RETURN_IF_ERROR(Configure(made.get(), where));
  if (connect(made.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) !=
      0) {
    // EINTR leaves the attempt running, exactly as EINPROGRESS does.
    if (errno != EINPROGRESS && errno != EINTR) return CannotConnect(where, errno);
    bool ready = false;
    HVDLITE_RETURN_IF_ERROR(WaitFor(made.get(), POLLOUT, deadline, &ready));
    if (!ready) {
      return Status::Timeout(
          "cannot connect to " + where +
          ": no answer in time (a firewall, a wrong address, or the machine is down)");
    }
    int error = 0;
    socklen_t length = sizeof(error);
    if (getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
    if (error != 0) return CannotConnect(where, error);
  }
  // A connect to a free port of this machine can connect to itself (simultaneous open). Then no
  // peer is listening there.
  Endpoint local;
  Endpoint peer;
  if (LocalEndpoint(made.get(), &local).ok() && PeerEndpoint(made.get(), &peer).ok() &&
      local == peer) {
    return CannotConnect(where, ECONNREFUSED);
  }
  *fd = std::move(made);
  return Status::Ok();
}

}  // namespace

std::string Endpoint::ToString() const {
  const bool brackets = host.find(':') != std::string::npos;
  return (brackets ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Status ParseEndpoint(std::string_view text, Endpoint* endpoint) {
  const auto bad = [&](const char* why) {
    return Status::InvalidArgument("'" + std::string(text) + "' is not an address: " + why +
                                   "; write 10.0.0.5:4000, node1:4000 or [::1]:4000");
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad("the port is missing");
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  const bool brackets = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (brackets) host = host.substr(1, host.size() - 2);
  if (host.empty()) return bad("the host is missing");
  if (!brackets && host.find(':') != std::string_view::npos)
    return bad("an IPv6 address needs brackets");
  if (host.find_first_of("[] ") != std::string_view::npos) return bad("the host is malformed");
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size())
    return bad("the port is not 0 to 65535");
  *endpoint = Endpoint{std::string(host), port};
  return Status::Ok();
}

Status Connect(const Endpoint& endpoint, Deadline deadline, Fd* fd) {
  std::vector<SocketAddress> addresses;
  HVDLITE_RETURN_IF_ERROR(Resolve(endpoint, deadline, &addresses));
  Status status;
  for (size_t i = 0; i < addresses.size(); ++i) {
    // An address that drops packets (a broken IPv6 route) must not use up the time of the next one.
    const auto left = static_cast<Nanos>(addresses.size() - i);
    const Deadline share =
        left == 1 ? deadline : Deadline::After(deadline.Left(kAddressSpan * left) / left);
    const Status one = ConnectOne(addresses[i], share, fd);
    if (one.ok()) return one;
    status = status.ok() ? one : Status(one.code(), status.message() + "; " + one.message());
  }
  return status;
}

void StopPacing(int fd) {
  if (CongestionControl(fd).starts_with("bbr")) SetCongestionControl(fd, "reno");
}

void PaceIfFar(int fd) {
  // Within a building a packet and its answer take less.
  constexpr uint32_t kFarMicroseconds = 2000;
  static const std::string of_system = [] {
    const Fd fresh(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return CongestionControl(fresh.get());
  }();
  tcp_info info{};
  socklen_t length = sizeof(info);
  if (CongestionControl(fd) == of_system ||
      getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 ||
      info.tcpi_rtt < kFarMicroseconds)
    return;
  SetCongestionControl(fd, of_system);
}

Status BindToInterface(int fd, const std::string& interface) {
  if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface.c_str(),
                 static_cast<socklen_t>(interface.size())) == 0)
    return Status::Ok();
  return Status::FromErrno("cannot bind a connection to the network interface " + interface, errno);
}

Status Listen(const Endpoint& endpoint, int backlog, Fd* listener, Endpoint* bound,
              const std::string& interface) {
  if (endpoint.host.empty()) {
    return Status::InvalidArgument(
        "an address to listen on is missing (0.0.0.0 or :: mean every interface)");
  }
  std::vector<SocketAddress> addresses;
  HVDLITE_RETURN_IF_ERROR(Resolve(endpoint, Deadline::After(10 * kSecond), &addresses));
  const SocketAddress& address = addresses.front();
  const std::string what = "cannot listen on " + endpoint.ToString();
  Fd made(socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made.valid()) return Status::FromErrno(what, errno);
  // A fixed port must not be refused because the last job left connections in TIME_WAIT.
  const int on = 1;
  if (setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0)
    return Status::FromErrno(what, errno);
  if (!interface.empty()) HVDLITE_RETURN_IF_ERROR(BindToInterface(made.get(), interface));
  if (bind(made.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length) != 0 ||
      listen(made.get(), backlog) != 0) {
    return Status::FromErrno(what, errno);
  }
  HVDLITE_RETURN_IF_ERROR(LocalEndpoint(made.get(), bound));
  *listener = std::move(made);
  return Status::Ok();
}

Status TryAccept(int listener, Fd* fd, Endpoint* peer) {
  fd->Reset();
  SocketAddress address;
  address.length = sizeof(address.storage);
  Fd made(accept4(listener, reinterpret_cast<sockaddr*>(&address.storage), &address.length,
                  SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!made.valid()) {
    const int error = errno;
    // Linux reports the errors of connections that died in the queue here (accept(2)). They are not
    // the listener's.
    constexpr int harmless[] = {EAGAIN, EWOULDBLOCK,  EINTR,       ECONNABORTED,
                                EPROTO, ENETDOWN,     ENOPROTOOPT, EHOSTDOWN,
                                ENONET, EHOSTUNREACH, EOPNOTSUPP,  ENETUNREACH};
    if (std::find(std::begin(harmless), std::end(harmless), error) != std::end(harmless))
      return Status::Ok();
    Endpoint here;
    return Status::FromErrno(
        "cannot accept a connection" +
            (LocalEndpoint(listener, &here).ok() ? " on " + here.ToString() : ""),
        error);
  }
  *peer = address.ToEndpoint();
  if (!Configure(made.get(), peer->ToString()).ok()) return Status::Ok();  // already gone again
  *fd = std::move(made);
  return Status::Ok();
}

Status WaitAccept(int listener, Deadline deadline, Fd* fd, Endpoint* peer) {
  while (true) {
    HVDLITE_RETURN_IF_ERROR(TryAccept(listener, fd, peer));
    if (fd->valid()) return Status::Ok();
    bool ready = false;
    HVDLITE_RETURN_IF_ERROR(WaitFor(listener, POLLIN, deadline, &ready));
    if (!ready) {
      Endpoint here;
      HVDLITE_RETURN_IF_ERROR(LocalEndpoint(listener, &here));
      return Status::Timeout("no process connected to " + here.ToString() + " in time");
    }
  }
}

Status WaitFor(int fd, short events, Deadline deadline, bool* ready) {
  *ready = false;
  while (true) {
    pollfd entry{fd, events, 0};
    const bool last = deadline.Passed();  // check once even then
    const int n = poll(&entry, 1, last ? 0 : deadline.LeftMillis(kPollMillis));
    if (n < 0 && errno != EINTR) return Status::FromErrno("cannot wait for a socket (poll)", errno);
    if (n > 0 && (entry.revents & POLLNVAL) != 0)
      return Status::Internal("waiting for a descriptor that is closed");
    *ready = n > 0;
    if (*ready || last) return Status::Ok();
  }
}

Status ReadFull(int fd, void* data, size_t bytes, Deadline deadline, const std::string& who) {
  size_t done = 0;
  const auto progress = [&] {
    return " (" + std::to_string(done) + " of " + std::to_string(bytes) + " bytes came)";
  };
  while (done < bytes) {
    const ssize_t n = recv(fd, static_cast<char*>(data) + done, bytes - done, MSG_DONTWAIT);
    if (n > 0) {
      done += static_cast<size_t>(n);
      continue;
    }
    if (n == 0) return Status::Io(who + " closed the connection" + (done > 0 ? progress() : ""));
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK)
      return Status::FromErrno("cannot read from " + who, errno);
    bool ready = false;
    HVDLITE_RETURN_IF_ERROR(WaitFor(fd, POLLIN, deadline, &ready));
    if (!ready) return Status::Timeout("no answer from " + who + " in time" + progress());
  }
  return Status::Ok();
}

Status WriteFull(int fd, const void* data, size_t bytes, Deadline deadline,
                 const std::string& who) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t n =
        send(fd, static_cast<const char*>(data) + done, bytes - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) {
      done += static_cast<size_t>(n);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK)
      return Status::FromErrno("cannot write to " + who, errno);
    bool ready = false;
    HVDLITE_RETURN_IF_ERROR(WaitFor(fd, POLLOUT, deadline, &ready));
    if (!ready) {
      return Status::Timeout(who + " does not read: only " + std::to_string(done) + " of " +
                             std::to_string(bytes) + " bytes could be written in time");
    }
  }
  return Status::Ok();
}

Status LocalEndpoint(int fd, Endpoint* endpoint) {
  SocketAddress address;
  address.length = sizeof(address.storage);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) {
    return Status::FromErrno("cannot get the local address of a socket", errno);
  }
  *endpoint = address.ToEndpoint();
  return Status::Ok();
}

Status PeerEndpoint(int fd, Endpoint* endpoint) {
  SocketAddress address;
  address.length = sizeof(address.storage);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) {
    return Status::FromErrno("cannot get the remote address of a socket", errno);
  }
  *endpoint = address.ToEndpoint();
  return Status::Ok();
}

}  // namespace hvdlite::transport::tcp
