#include "transport/tcp/link_listener.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace hvdlite::transport::tcp {

namespace {

// The number of connections that may wait unauthenticated; one more displaces the oldest. A rank is
// authenticated in milliseconds, so only a flood reaches this limit. The flood must not use up the
// process's descriptors.
constexpr size_t kStandingMost = 256;

}  // namespace

Status LinkListener::Open(const Endpoint& at, int backlog, const LinkIdentity& me,
                          const Logger* log, std::unique_ptr<LinkListener>* listener) {
  Fd fd;
  Endpoint bound;
  HVDLITE_RETURN_IF_ERROR(Listen(at, backlog, &fd, &bound));
  if (!me.as_system) StopPacing(fd.get());
  listener->reset(new LinkListener(std::move(fd), backlog, std::move(bound), me, log));
  return Status::Ok();
}

Status LinkListener::AlsoAt(const std::string& address, const std::string& interface,
                            Endpoint* bound) {
  Fd fd;
  HVDLITE_RETURN_IF_ERROR(Listen({address, 0}, backlog_, &fd, bound, interface));
  if (!me_.as_system) StopPacing(fd.get());
  more_.push_back(std::move(fd));
  return Status::Ok();
}

Status LinkListener::AcceptAll(int listener) {
  while (true) {
    Guest guest;
    Endpoint peer;
    HVDLITE_RETURN_IF_ERROR(TryAccept(listener, &guest.fd, &peer));
    if (!guest.fd.valid()) return Status::Ok();
    if (standing_.size() == kStandingMost) standing_.pop_front();
    guest.who = "a process at " + peer.ToString();
    guest.handshake = std::make_unique<ServerHandshake>(
        me_.secret, Purpose::kLink, Deadline::Never(), guest.who, me_.generation);
    standing_.push_back(std::move(guest));
  }
}

Status LinkListener::Turn() {
  HVDLITE_RETURN_IF_ERROR(AcceptAll(fd_.get()));
  for (const Fd& fd : more_) HVDLITE_RETURN_IF_ERROR(AcceptAll(fd.get()));
  for (Guest& guest : standing_) {
    const Status status = Advance(&guest);
    if (status.ok()) continue;
    guest.gone = true;
    if (log_ != nullptr)
      log_->Warning("closed a connection to " + endpoint_.ToString() + ": " + status.message());
  }
  std::erase_if(standing_, [](const Guest& guest) { return guest.gone; });
  return Status::Ok();
}

Status LinkListener::Advance(Guest* guest) {
  switch (guest->handshake->Advance(guest->fd.get())) {
    case Handshake::Progress::kPending: return Status::Ok();
    case Handshake::Progress::kFailed: return guest->handshake->status();
    case Handshake::Progress::kDone: return ReadHello(guest);
  }
  return Status::Internal("a handshake in no state");
}

Status LinkListener::ReadHello(Guest* guest) {
  while (guest->received < kLinkHelloBytes) {
    const ssize_t n = recv(guest->fd.get(), guest->hello.data() + guest->received,
                           kLinkHelloBytes - guest->received, MSG_DONTWAIT);
    if (n > 0) {
      guest->received += static_cast<size_t>(n);
    } else if (n == 0) {
      return Status::Io(guest->who + " closed the connection before it said which link it is");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!guest->handshake->deadline().Passed()) return Status::Ok();
      return Status::Timeout(guest->who + " did not say in time which link it is");
    } else if (errno != EINTR) {
      return Status::FromErrno("cannot read from " + guest->who, errno);
    }
  }
  return Park(guest);
}

Status LinkListener::Park(Guest* guest) {
  LinkHello hello;
  if (!Decode(guest->hello, &hello)) {
    return Status::Io(guest->who + " speaks another version of the link protocol");
  }
  const std::string link =
      "rank " + std::to_string(hello.from) + " wanted rank " + std::to_string(hello.to);
  if (hello.to != me_.rank) return Status::Io(link + ", but this is another rank");
  if (claimed_.contains(hello)) return Status::Io(link + " a second time");
  // The newer connection is the one that the client still holds.
  parked_[hello] = std::move(guest->fd);
  guest->gone = true;
  return Status::Ok();
}

Fd LinkListener::TryClaim(const LinkHello& hello) {
  const auto found = parked_.find(hello);
  if (found == parked_.end()) return Fd();
  Fd fd = std::move(found->second);
  parked_.erase(found);
  const auto welcome = EncodeWelcome(hello);
  // The socket has sent 76 bytes so far, so this fits unless the client is gone. The client then
  // connects again.
  const ssize_t n = send(fd.get(), welcome.data(), welcome.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n != static_cast<ssize_t>(welcome.size())) return Fd();
  claimed_.insert(hello);
  return fd;
}

void LinkListener::AddPollFds(std::vector<pollfd>* fds) const {
  fds->push_back({fd_.get(), POLLIN, 0});
  for (const Fd& fd : more_) fds->push_back({fd.get(), POLLIN, 0});
  for (const Guest& guest : standing_)
    fds->push_back({guest.fd.get(), guest.handshake->wants(), 0});
}

}  // namespace hvdlite::transport::tcp
