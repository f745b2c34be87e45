// LinkListener: accepts the links of higher ranks. Open for the life of the engine.
//
//   accept ─► handshake (secret, generation) ─► hello (24 bytes) ─► parked ─► claimed
//
// Nothing here blocks, and no connection delays another. A connection with garbage, a wrong secret,
// a replay or silence is closed, after kHandshakeSpan at the latest, with one log line. Between two
// Turn() calls new connections wait in the kernel's queue; their time starts when they are
// accepted. Thread-safety: one thread at a time. Failure: Turn() fails only if the listening socket
// itself does (too many open files).
#pragma once

#include <poll.h>

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/log.h"
#include "transport/tcp/handshake.h"
#include "transport/tcp/link_hello.h"
#include "transport/tcp/socket.h"

namespace hvdlite::transport::tcp {

// This rank, as its links prove it.
struct LinkIdentity {
  uint32_t rank = 0;
  uint32_t generation = 0;  // 0: of a job that is not elastic
  Secret secret{};
  bool as_system = false;  // its links use the system's congestion control: see StopPacing
};

class LinkListener {
 public:
  // Port 0 chooses a free one: see endpoint(). `backlog`: at least the number of ranks. `log` may
  // be null; borrowed.
  static Status Open(const Endpoint& at, int backlog, const LinkIdentity& me, const Logger* log,
                     std::unique_ptr<LinkListener>* listener);

  // Listens at one more address, too. `interface`: if not empty, see BindToInterface.
  Status AlsoAt(const std::string& address, const std::string& interface, Endpoint* bound);

  const Endpoint& endpoint() const { return endpoint_; }
  const LinkIdentity& me() const { return me_; }

  // Accepts connections, advances all handshakes, reads hellos, closes connections that are late.
  Status Turn();
  void AddPollFds(std::vector<pollfd>* fds) const;

  // Returns the parked connection of this hello and welcomes the client. Returns an invalid Fd if
  // it has not arrived.
  Fd TryClaim(const LinkHello& hello);

  size_t standing() const { return standing_.size(); }  // not yet parked
  size_t parked() const { return parked_.size(); }

 private:
  struct Guest {
    Fd fd;
    std::unique_ptr<ServerHandshake> handshake;
    std::string who;
    std::array<uint8_t, kLinkHelloBytes> hello{};
    size_t received = 0;
    bool gone = false;
  };

  LinkListener(Fd fd, int backlog, Endpoint endpoint, const LinkIdentity& me, const Logger* log)
      : fd_(std::move(fd)), backlog_(backlog), endpoint_(std::move(endpoint)), me_(me), log_(log) {}
  Status AcceptAll(int listener);
  Status Advance(Guest* guest);
  Status ReadHello(Guest* guest);
  Status Park(Guest* guest);

  const Fd fd_;
  std::vector<Fd> more_;  // the sockets of AlsoAt
  const int backlog_;
  const Endpoint endpoint_;
  const LinkIdentity me_;
  const Logger* const log_;
  std::deque<Guest> standing_;  // oldest first
  std::map<LinkHello, Fd> parked_;
  // a second connection of the same link is a mistake
  std::set<LinkHello> claimed_;
};

}  // namespace hvdlite::transport::tcp
