#include "transport/shm/neighbours.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/fd.h"
#include "base/sha256.h"
#include "transport/shm/descriptors.h"

namespace hvdlite::transport::shm {
namespace {

// The first message on a spoke's socket: proof of the secret, bound to this host's rendezvous
// socket.
struct Hello {
  uint32_t local_rank;
  Digest proof;
};

Digest Proof(const std::string& secret, const std::string& name, uint32_t local_rank) {
  return HmacSha256(secret, "hvdlite neighbour" + name + std::to_string(local_rank));
}

sockaddr_un AbstractAddress(const std::string& name, socklen_t* length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path + 1, name.data(), name.size());  // a leading NUL: abstract, no file
  *length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

bool SameUser(int socket) {
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0 &&
         credentials.uid == geteuid();
}

// The error for a conversation that broke during start-up, unless the reason is known.
Status Gone(int rank, const Status& how, const Until& until) {
  HVDLITE_RETURN_IF_ERROR(until.Look());
  if (how.code() == StatusCode::kTimeout) return how;
  return Status::PeerLost(
      Cause::kClosed, {rank},
      "rank " + std::to_string(rank) +
          " of this host ended during start-up, or belongs to a job with another secret (" +
          how.message() + ")");
}

// The number of connections, beyond the number of ranks, that may wait without having proved who
// they are. The next one displaces the oldest.
constexpr size_t kMostStrangers = 64;

}  // namespace

Status Neighbours::Open(int* listener, std::string* name) {
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) return Status::FromErrno("cannot create a Unix socket", errno);
  std::array<uint8_t, 16> random;
  HVDLITE_RETURN_IF_ERROR(RandomBytes(random.data(), random.size()));
  *name = "hvdlite-";
  for (uint8_t byte : random) {
    name->push_back("0123456789abcdef"[byte >> 4]);
    name->push_back("0123456789abcdef"[byte & 15]);
  }
  socklen_t length;
  const sockaddr_un address = AbstractAddress(*name, &length);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(fd.get(), 1024) != 0) {
    return Status::FromErrno(
        "cannot open the rendezvous socket of this host's ranks (abstract Unix socket)", errno);
  }
  *listener = fd.Release();
  return Status::Ok();
}

Status Neighbours::Host(int listener, const std::string& secret, std::vector<int> global_ranks,
                        bool want_eventfds, const Until& until, std::unique_ptr<Neighbours>* out) {
  Fd listening(listener);
  const int local_size = static_cast<int>(global_ranks.size());
  std::unique_ptr<Neighbours> self(new Neighbours(std::move(global_ranks)));
  HVDLITE_RETURN_IF_ERROR(HostSegment::Create(local_size, &self->segment_));
  self->sockets_.assign(local_size - 1, -1);
  if (want_eventfds) {
    for (int i = 0; i < local_size; ++i) {
      const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
      if (fd < 0) return Status::FromErrno("cannot create an eventfd", errno);
      self->eventfds_.push_back(fd);
    }
  }

  sockaddr_un address{};
  socklen_t length = sizeof(address);
  getsockname(listening.get(), reinterpret_cast<sockaddr*>(&address), &length);
  const std::string name(address.sun_path + 1, length - offsetof(sockaddr_un, sun_path) - 1);

  // A silent connection delays no other and is not closed for its silence: it may be a rank of a
  // busy host that is held up just then.
  std::vector<Fd> guests;
  for (int missing = local_size - 1; missing > 0;) {
    std::vector<pollfd> readable = {{listening.get(), POLLIN, 0}};
    for (const Fd& guest : guests) readable.push_back({guest.get(), POLLIN, 0});
    Status ready = WaitReady(&readable, until, "waiting for the ranks of this host");
    if (!ready.ok() && ready.code() != StatusCode::kTimeout) return ready;
    if (!ready.ok()) {
      std::string who;
      for (int i = 1; i < local_size; ++i) {
        if (self->sockets_[i - 1] < 0)
          who += (who.empty() ? "" : ", ") + std::to_string(self->global_ranks_[i]);
      }
      return Status::Timeout("rank(s) " + who +
                             " of this host did not come within the start timeout");
    }
    for (size_t i = 0; i < guests.size(); ++i) {
      if (readable[i + 1].revents == 0) continue;
      Fd spoke = std::move(guests[i]);
      Hello hello;
      std::vector<int> none;
      if (!ReceiveWithFds(spoke.get(), &hello, sizeof(hello), 0, until, &none).ok()) continue;
      if (hello.local_rank == 0 || hello.local_rank >= static_cast<uint32_t>(local_size) ||
          !EqualInConstantTime(hello.proof.data(), Proof(secret, name, hello.local_rank).data(),
                               sizeof(Digest)) ||
          self->sockets_[hello.local_rank - 1] >= 0) {
        continue;
      }
      self->sockets_[hello.local_rank - 1] = spoke.Release();
      --missing;
    }
    std::erase_if(guests, [](const Fd& guest) { return !guest.valid(); });
    if (readable[0].revents == 0) continue;
    Fd guest(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!guest.valid()) {
      if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) continue;
      return Status::FromErrno("cannot accept the ranks of this host", errno);
    }
    if (!SameUser(guest.get())) continue;
    if (guests.size() == static_cast<size_t>(local_size) + kMostStrangers)
      guests.erase(guests.begin());
    guests.push_back(std::move(guest));
  }
  for (int i = 1; i < local_size; ++i) {
    const int spoke = self->sockets_[i - 1];
    self->socket_ranks_.push_back(i);
    const uint32_t count = static_cast<uint32_t>(self->eventfds_.size());
    Status sent = SendWithFds(spoke, &count, sizeof(count), {self->segment_->fd()});
    for (size_t at = 0; sent.ok() && at < count; at += kFdsPerMessage) {
      const size_t end = std::min<size_t>(count, at + kFdsPerMessage);
      sent = SendWithFds(spoke, &count, sizeof(count),
                         std::vector<int>(self->eventfds_.begin() + static_cast<long>(at),
                                          self->eventfds_.begin() + static_cast<long>(end)));
    }
    if (!sent.ok()) return Gone(self->global_ranks_[static_cast<size_t>(i)], sent, until);
  }
  *out = std::move(self);
  return Status::Ok();
}

Status Neighbours::Join(const std::string& name, const std::string& secret, int local_rank,
                        std::vector<int> global_ranks, bool want_eventfds, const Until& until,
                        std::unique_ptr<Neighbours>* out) {
  const int local_size = static_cast<int>(global_ranks.size());
  std::unique_ptr<Neighbours> self(new Neighbours(std::move(global_ranks)));
  Fd hub(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (hub.get() < 0) return Status::FromErrno("cannot create a Unix socket", errno);
  socklen_t length;
  const sockaddr_un address = AbstractAddress(name, &length);
  int rc;
  do {
    rc = connect(hub.get(), reinterpret_cast<const sockaddr*>(&address), length);
  } while (rc != 0 && errno == EINTR);
  if (rc != 0)
    return Gone(self->global_ranks_[0], Status::FromErrno("cannot reach it", errno), until);
  if (!SameUser(hub.get())) return Status::Io("the first rank of this host runs as another user");
  const Hello hello{static_cast<uint32_t>(local_rank),
                    Proof(secret, name, static_cast<uint32_t>(local_rank))};
  const Status said = SendWithFds(hub.get(), &hello, sizeof(hello), {});
  if (!said.ok()) return Gone(self->global_ranks_[0], said, until);

  uint32_t count = 0;
  std::vector<int> fds;
  const Status heard = ReceiveWithFds(hub.get(), &count, sizeof(count), 1, until, &fds);
  if (!heard.ok()) return Gone(self->global_ranks_[0], heard, until);
  if (fds.size() != 1) return Status::Io("the first rank of this host sent no shared segment");
  HVDLITE_RETURN_IF_ERROR(HostSegment::Attach(fds[0], local_size, &self->segment_));
  if (count != (want_eventfds ? static_cast<uint32_t>(local_size) : 0)) {
    return Status::Internal("the ranks of this host disagree about how they wake one another");
  }
  while (self->eventfds_.size() < count) {
    uint32_t again;
    const Status more =
        ReceiveWithFds(hub.get(), &again, sizeof(again), kFdsPerMessage, until, &self->eventfds_);
    if (!more.ok()) return Gone(self->global_ranks_[0], more, until);
  }
  self->sockets_ = {hub.Release()};
  self->socket_ranks_ = {0};
  *out = std::move(self);
  return Status::Ok();
}

Status Neighbours::Share(int own, const Until& until, std::vector<Fd>* all) {
  all->clear();
  all->resize(global_ranks_.size());
  const auto mine = own < 0 ? std::vector<int>() : std::vector<int>{own};
  const uint8_t given = own < 0 ? 0 : 1;
  const bool is_spoke = !socket_ranks_.empty() && socket_ranks_[0] == 0;
  if (is_spoke) {
    const Status told = SendWithFds(sockets_[0], &given, sizeof(given), mine);
    return told.ok() ? ReceiveShared(until, all) : Gone(global_ranks_[0], told, until);
  }
  for (size_t i = 0; i < sockets_.size(); ++i) {
    uint8_t gives = 0;
    std::vector<int> got;
    const Status heard = ReceiveWithFds(sockets_[i], &gives, sizeof(gives), 1, until, &got);
    const auto spoke = static_cast<size_t>(socket_ranks_[i]);
    for (const int fd : got) (*all)[spoke].Reset(fd);
    if (!heard.ok()) return Gone(global_ranks_[spoke], heard, until);
  }
  std::vector<int> shared = {own};
  for (size_t rank = 1; rank < all->size(); ++rank) shared.push_back((*all)[rank].get());
  for (size_t i = 0; i < sockets_.size(); ++i) {
    const Status told = SendShared(sockets_[i], shared);
    if (!told.ok()) return Gone(global_ranks_[static_cast<size_t>(socket_ranks_[i])], told, until);
  }
  return Status::Ok();
}

// Each message says of so many ranks, one byte each, whether they have given a descriptor.
Status Neighbours::SendShared(int socket, const std::vector<int>& shared) {
  for (size_t at = 0; at < shared.size(); at += kFdsPerMessage) {
    std::vector<uint8_t> gave;
    std::vector<int> given;
    for (size_t rank = at; rank < std::min(at + kFdsPerMessage, shared.size()); ++rank) {
      gave.push_back(shared[rank] < 0 ? 0 : 1);
      if (shared[rank] >= 0) given.push_back(shared[rank]);
    }
    HVDLITE_RETURN_IF_ERROR(SendWithFds(socket, gave.data(), gave.size(), given));
  }
  return Status::Ok();
}

Status Neighbours::ReceiveShared(const Until& until, std::vector<Fd>* all) {
  for (size_t at = 0; at < all->size(); at += kFdsPerMessage) {
    std::vector<uint8_t> gave(std::min(kFdsPerMessage, all->size() - at));
    std::vector<int> given;
    const Status heard =
        ReceiveWithFds(sockets_[0], gave.data(), gave.size(), kFdsPerMessage, until, &given);
    size_t next = 0;
    for (size_t i = 0; i < gave.size() && next < given.size(); ++i) {
      if (gave[i] != 0) (*all)[at + i].Reset(given[next++]);
    }
    for (; next < given.size(); ++next) close(given[next]);
    if (!heard.ok()) return Gone(global_ranks_[0], heard, until);
  }
  return Status::Ok();
}

Neighbours::~Neighbours() {
  for (int fd : sockets_) {
    if (fd >= 0) close(fd);
  }
  for (int fd : eventfds_) close(fd);
}

Status Neighbours::Check(Nanos now) {
  next_check_ = now + kLookEvery;
  for (size_t i = 0; i < sockets_.size(); ++i) {
    if (sockets_[i] < 0) continue;
    char byte;
    const ssize_t got = recv(sockets_[i], &byte, 1, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    // Nothing is sent after start-up, so any event means the end of the peer.
    close(sockets_[i]);
    sockets_[i] = -1;
    if (segment_->line(socket_ranks_[i]).left.load(std::memory_order_seq_cst) != 0) continue;
    const int rank = global_ranks_[socket_ranks_[i]];
    return Status::PeerLost(
        Cause::kDied, {rank},
        "rank " + std::to_string(rank) +
            " died (its process on this host ended without hvd.shutdown()). Look at its "
            "output for the cause: an exception, the out-of-memory killer, a signal.");
  }
  return Status::Ok();
}

}  // namespace hvdlite::transport::shm
