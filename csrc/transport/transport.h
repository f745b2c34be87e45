// Transport: an ordered, reliable, two-way byte pipe between this rank and one peer.
//
// Implemented by tcp/link (between hosts), shm/pipe (inside a host), checked and striped (over
// others). It moves bytes; it knows no message, no tensor and no collective.
//
// Never blocks: both calls move what fits now and return. The engine decides how a thread sleeps
// until more fits (engine/turn.cc); a transport only names the descriptor to poll. Thread-safety:
// one thread at a time (the holder of the engine's turn). Failure: kPeerLost with the peer's global
// rank when the other side is gone. After that every call fails, except that bytes which arrived
// before a failed send can still be received.
#pragma once

#include <poll.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace hvdlite::transport {

class Transport {
 public:
  virtual ~Transport() = default;

  // *moved is always set: 0 when nothing fits at the moment. Offer the same bytes for sending
  // again, unchanged, until they have moved. After a call to receive that moved nothing, pass the
  // same memory again, with at least the same size: bytes may lie there already, not yet known to
  // be correct.
  virtual Status TrySend(const void* data, size_t bytes, size_t* moved) = 0;
  virtual Status TryReceive(void* data, size_t bytes, size_t* moved) = 0;
  // The same with two pieces of memory, the second after the first. At best this is one system
  // call.
  virtual Status TrySendBoth(const iovec (&parts)[2], size_t* moved) {
    HVDLITE_RETURN_IF_ERROR(TrySend(parts[0].iov_base, parts[0].iov_len, moved));
    if (*moved < parts[0].iov_len) return Status::Ok();
    size_t more = 0;
    const Status status = TrySend(parts[1].iov_base, parts[1].iov_len, &more);
    *moved += more;
    return status;
  }
  // The same for a peer that wants both or nothing.
  virtual Status TrySendAsOne(const iovec (&parts)[2], size_t* moved) {
    return TrySendBoth(parts, moved);
  }
  virtual Status TryReceiveBoth(const iovec (&parts)[2], size_t* moved) {
    HVDLITE_RETURN_IF_ERROR(TryReceive(parts[0].iov_base, parts[0].iov_len, moved));
    if (*moved < parts[0].iov_len) return Status::Ok();
    size_t more = 0;
    const Status status = TryReceive(parts[1].iov_base, parts[1].iov_len, &more);
    *moved += more;
    return status;
  }

  // From now on poll(2) reports bytes to receive only if at least so many have arrived, or the
  // connection's end. A hint: it may report fewer. Ask only for bytes that the peer sends anyway.
  virtual void WakeAt(size_t /*bytes*/) {}

  // Ends sending; the peer sees the end once it has read everything. Closing a connection that
  // still has unread bytes discards what the peer has not read yet. An orderly leaver therefore
  // calls this, then receives until that fails.
  virtual void EndSending() {}

  // For messages: "the connection of rank 0 (10.0.0.2) with rank 3 (10.0.0.3)".
  virtual std::string Name() const { return "the connection with rank " + std::to_string(peer()); }
  // How many of the sent bytes the peer's kernel has acknowledged. It does so even if the peer's
  // process is stopped.
  struct Acknowledged {
    bool known = false;    // false: nothing can get lost here
    uint64_t bytes = 0;    // so far
    bool waiting = false;  // some sent bytes are not yet acknowledged
    uint64_t queued = 0;   // not yet acknowledged, sent or waiting here to be sent
  };
  virtual Acknowledged acknowledged() const { return {}; }
  // Whether the peer has closed its end in good order, and all its bytes have been received.
  virtual bool ended() const { return false; }
  // Whether it may have bytes that poll(2) does not tell of: they have been read and not returned.
  virtual bool holds_bytes() const { return false; }
  // The global rank at the other end.
  virtual int peer() const = 0;
  // A descriptor that poll(2) understands, or -1 when the peer rings a doorbell instead.
  virtual int fd() const = 0;
  // Adds what poll(2) has to watch until more can be sent (POLLOUT) or received (POLLIN).
  virtual void AddPollFds(short events, std::vector<pollfd>* fds) const {
    if (fd() >= 0) fds->push_back({fd(), events, 0});
  }
};

}  // namespace hvdlite::transport
