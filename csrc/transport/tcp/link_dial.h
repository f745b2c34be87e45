// LinkDial: connects this rank to one peer. Tries the peer's addresses until one of them welcomes
// us. Never blocks, except for the look-up of an address that is a name (kResolveSpan at most;
// rosters hold numbers).
//
//   per address:  connect ─► handshake ─► hello ─► welcome
//                    └──────── any failure: again after a pause ──┘
//
// Addresses start one after another, kStagger apart, and then run side by side. So an address that
// drops packets or leads to another process delays the others by kStagger only. The first welcome
// wins; the other attempts are closed. Thread-safety: one thread at a time.
#pragma once

#include <poll.h>

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "transport/tcp/handshake.h"
#include "transport/tcp/link_hello.h"
#include "transport/tcp/link_listener.h"
#include "transport/tcp/socket.h"

namespace hvdlite::transport::tcp {

// Where a connection begins, on a host that uses several interfaces.
struct Origin {
  std::string interface;  // its name, for messages; empty: the system chooses
  std::string address;    // of this end
  bool bound = false;     // see BindToInterface
};

class LinkDial {
 public:
  static constexpr Nanos kStagger = 250 * kMillisecond;
  static constexpr Nanos kResolveSpan = 2 * kSecond;
  // A peer whose listener is not open yet takes milliseconds; a peer whose host still boots takes
  // seconds.
  static constexpr Nanos kFirstPause = 20 * kMillisecond;
  static constexpr Nanos kLongestPause = kSecond;

  LinkDial(const LinkHello& hello, std::vector<Endpoint> candidates, const LinkIdentity& me,
           Deadline deadline, Origin origin = {});

  // Returns true when connected. Then Take() the connection.
  bool Turn(Nanos now);
  Fd Take() { return std::move(won_); }
  void AddPollFds(std::vector<pollfd>* fds) const;
  // The last failure of each address: "10.0.0.5:4000: Connection refused; 172.17.0.1:4000: ...".
  std::string Failures() const;

 private:
  struct Attempt {
    enum class Stage { kPausing, kConnecting, kShakingHands, kGreeting, kAwaitingWelcome };
    Endpoint candidate;
    Stage stage = Stage::kPausing;
    Nanos next = 0;  // when to begin (again)
    Nanos pause = kFirstPause;
    unsigned tries = 0;
    Fd fd;
    std::unique_ptr<ClientHandshake> handshake;
    size_t moved = 0;  // bytes of the hello, then of the welcome
    std::array<uint8_t, kLinkWelcomeBytes> welcome{};
    Status failure;
  };

  // Returns OK unless the attempt has failed; sets *won when the welcome has arrived.
  Status Advance(Attempt* attempt, bool* won);
  Status Begin(Attempt* attempt);
  Status BindOrigin(int fd) const;
  Status Connected(Attempt* attempt, bool* ready) const;
  Status Greet(Attempt* attempt) const;
  Status AwaitWelcome(Attempt* attempt, bool* won) const;

  const LinkHello hello_;
  const LinkIdentity me_;
  const Origin origin_;
  const Deadline deadline_;
  std::vector<Attempt> attempts_;
  Fd won_;
};

}  // namespace hvdlite::transport::tcp
