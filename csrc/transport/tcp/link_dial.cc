#include "transport/tcp/link_dial.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace hvdlite::transport::tcp {

LinkDial::LinkDial(const LinkHello& hello, std::vector<Endpoint> candidates, const LinkIdentity& me,
                   Deadline deadline, Origin origin)
    : hello_(hello), me_(me), origin_(std::move(origin)), deadline_(deadline) {
  const Nanos now = MonotonicNow();
  for (Endpoint& candidate : candidates) {
    Attempt attempt;
    attempt.candidate = std::move(candidate);
    attempt.next = now + static_cast<Nanos>(attempts_.size()) * kStagger;
    attempts_.push_back(std::move(attempt));
  }
}

bool LinkDial::Turn(Nanos now) {
  for (Attempt& attempt : attempts_) {
    if (attempt.stage == Attempt::Stage::kPausing && now < attempt.next) continue;
    bool won = false;
    const Status status = Advance(&attempt, &won);
    if (won) {
      won_ = std::move(attempt.fd);
      attempts_.clear();
      return true;
    }
    if (status.ok()) continue;
    attempt.failure = status;
    attempt.stage = Attempt::Stage::kPausing;
    attempt.fd.Reset();
    attempt.next = now + attempt.pause;
    attempt.pause = std::min(attempt.pause * 2, kLongestPause);
  }
  return false;
}

// Goes through as many stages as possible without blocking.
Status LinkDial::Advance(Attempt* attempt, bool* won) {
  using Stage = Attempt::Stage;
  if (attempt->stage == Stage::kPausing) {
    HVDLITE_RETURN_IF_ERROR(Begin(attempt));
    attempt->stage = Stage::kConnecting;
  }
  if (attempt->stage == Stage::kConnecting) {
    bool ready = false;
    HVDLITE_RETURN_IF_ERROR(Connected(attempt, &ready));
    if (!ready) return Status::Ok();
    attempt->handshake = std::make_unique<ClientHandshake>(
        me_.secret, Purpose::kLink, deadline_,
        "rank " + std::to_string(hello_.to) + " at " + attempt->candidate.ToString(),
        me_.generation);
    attempt->stage = Stage::kShakingHands;
  }
  if (attempt->stage == Stage::kShakingHands) {
    const Handshake::Progress progress = attempt->handshake->Advance(attempt->fd.get());
    if (progress == Handshake::Progress::kFailed) return attempt->handshake->status();
    if (progress == Handshake::Progress::kPending) return Status::Ok();
    attempt->moved = 0;
    attempt->stage = Stage::kGreeting;
  }
  if (attempt->stage == Stage::kGreeting) {
    HVDLITE_RETURN_IF_ERROR(Greet(attempt));
    if (attempt->moved < kLinkHelloBytes) return Status::Ok();
    attempt->moved = 0;
    attempt->stage = Stage::kAwaitingWelcome;
  }
  return AwaitWelcome(attempt, won);
}

Status LinkDial::Begin(Attempt* attempt) {
  std::vector<SocketAddress> addresses;
  HVDLITE_RETURN_IF_ERROR(
      Resolve(attempt->candidate, Deadline::After(deadline_.Left(kResolveSpan)), &addresses));
  const SocketAddress& address = addresses[attempt->tries++ % addresses.size()];
  const std::string where = address.ToEndpoint().ToString();
  Fd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return CannotConnect(where, errno);
  const int on = 1;
  if (setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
    return CannotConnect(where, errno);
  if (!me_.as_system) StopPacing(fd.get());
  if (!origin_.address.empty()) HVDLITE_RETURN_IF_ERROR(BindOrigin(fd.get()));
  const auto* name = reinterpret_cast<const sockaddr*>(&address.storage);
  // EINTR leaves the attempt running, exactly as EINPROGRESS does.
  if (connect(fd.get(), name, address.length) != 0 && errno != EINPROGRESS && errno != EINTR) {
    return CannotConnect(where, errno);
  }
  attempt->fd = std::move(fd);
  return Status::Ok();
}

Status LinkDial::BindOrigin(int fd) const {
  if (origin_.bound) HVDLITE_RETURN_IF_ERROR(BindToInterface(fd, origin_.interface));
  std::vector<SocketAddress> mine;
  HVDLITE_RETURN_IF_ERROR(Resolve({origin_.address, 0}, deadline_, &mine));
  // Otherwise every connection of the host from this address would need a port of its own.
  const int on = 1;
  setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
  const auto* name = reinterpret_cast<const sockaddr*>(&mine.front().storage);
  if (bind(fd, name, mine.front().length) == 0) return Status::Ok();
  return Status::FromErrno("cannot connect from " + origin_.address, errno);
}

Status LinkDial::Connected(Attempt* attempt, bool* ready) const {
  HVDLITE_RETURN_IF_ERROR(WaitFor(attempt->fd.get(), POLLOUT, Deadline::After(0), ready));
  if (!*ready) return Status::Ok();
  const std::string where = attempt->candidate.ToString();
  int error = 0;
  socklen_t length = sizeof(error);
  if (getsockopt(attempt->fd.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  if (error != 0) return CannotConnect(where, error);
  // A connect to a free port of this machine can connect to itself (simultaneous open). Then no
  // peer is listening there.
  Endpoint local;
  Endpoint peer;
  HVDLITE_RETURN_IF_ERROR(LocalEndpoint(attempt->fd.get(), &local));
  HVDLITE_RETURN_IF_ERROR(PeerEndpoint(attempt->fd.get(), &peer));
  return local == peer ? CannotConnect(where, ECONNREFUSED) : Status::Ok();
}

Status LinkDial::Greet(Attempt* attempt) const {
  const auto bytes = Encode(hello_);
  const ssize_t n = send(attempt->fd.get(), bytes.data() + attempt->moved,
                         bytes.size() - attempt->moved, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n >= 0) {
    attempt->moved += static_cast<size_t>(n);
  } else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
    return Status::FromErrno("cannot write to " + attempt->candidate.ToString(), errno);
  }
  return Status::Ok();
}

Status LinkDial::AwaitWelcome(Attempt* attempt, bool* won) const {
  const ssize_t n = recv(attempt->fd.get(), attempt->welcome.data() + attempt->moved,
                         kLinkWelcomeBytes - attempt->moved, MSG_DONTWAIT);
  if (n == 0) {
    return Status::Io("the process that listens at " + attempt->candidate.ToString() +
                      " belongs to this job but is not rank " + std::to_string(hello_.to));
  }
  if (n < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return Status::Ok();
    return Status::FromErrno("cannot read from " + attempt->candidate.ToString(), errno);
  }
  attempt->moved += static_cast<size_t>(n);
  if (attempt->moved < kLinkWelcomeBytes) return Status::Ok();
  if (attempt->welcome != EncodeWelcome(hello_)) {
    return Status::Io("the welcome from " + attempt->candidate.ToString() + " is for another rank");
  }
  *won = true;
  return Status::Ok();
}

void LinkDial::AddPollFds(std::vector<pollfd>* fds) const {
  for (const Attempt& attempt : attempts_) {
    switch (attempt.stage) {
      case Attempt::Stage::kPausing: break;
      case Attempt::Stage::kConnecting:
      case Attempt::Stage::kGreeting: fds->push_back({attempt.fd.get(), POLLOUT, 0}); break;
      case Attempt::Stage::kShakingHands:
        fds->push_back({attempt.fd.get(), attempt.handshake->wants(), 0});
        break;
      case Attempt::Stage::kAwaitingWelcome: fds->push_back({attempt.fd.get(), POLLIN, 0}); break;
    }
  }
}

std::string LinkDial::Failures() const {
  std::string text;
  for (const Attempt& attempt : attempts_) {
    if (!text.empty()) text += "; ";
    if (!attempt.failure.ok() && attempt.stage == Attempt::Stage::kPausing) {
      text += attempt.failure.message();
    } else if (attempt.stage == Attempt::Stage::kPausing) {
      text += attempt.candidate.ToString() + " has not been tried";
    } else if (attempt.stage == Attempt::Stage::kConnecting) {
      text += attempt.candidate.ToString() +
              " does not answer (a firewall, a wrong address, or the machine is down)";
    } else {
      text += attempt.candidate.ToString() + " accepted the connection, but then said nothing";
    }
    // An attempt in progress tells less than the last one that ended.
    if (!attempt.failure.ok() && attempt.stage != Attempt::Stage::kPausing) {
      text += " (before: " + attempt.failure.message() + ")";
    }
  }
  return text.empty() ? "it has no address" : text;
}

}  // namespace hvdlite::transport::tcp
