// Transport: an ordered, reliable, two-way byte pipe between this rank and one peer.
//
// Implemented by tcp/link (between hosts), shm/pipe (inside a host), and checked, which wraps
// another transport. It moves bytes; it knows no message, no tensor and no collective.
//
// Never blocks: both calls move what fits now and return. How a thread sleeps until more fits is
// the engine's business (engine/turn.cc); a transport only says which descriptor to poll.
// Thread-safety: one thread at a time (the holder of the engine's turn). Failure: kPeerLost with
// the peer's global rank when the other side is gone; after that every call fails, but what had
// come before a failed send can still be received.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace hvdlite::transport {

class Transport {
 public:
  virtual ~Transport() = default;

  // *moved is always set: 0 when nothing fits at the moment. Bytes that were offered for sending
  // are offered again, unchanged, until they have moved. While a call to receive has moved nothing,
  // the next one names the same memory, and as much of it or more: what has come may lie there
  // already, and counts only once it is known to be right.
  virtual Status TrySend(const void* data, size_t bytes, size_t* moved) = 0;
  virtual Status TryReceive(void* data, size_t bytes, size_t* moved) = 0;
  // The same with two stretches of memory, the second after the first. At best one system call.
  virtual Status TrySendBoth(const iovec (&parts)[2], size_t* moved) {
    HVDLITE_RETURN_IF_ERROR(TrySend(parts[0].iov_base, parts[0].iov_len, moved));
    if (*moved < parts[0].iov_len) return Status::Ok();
    size_t more = 0;
    const Status status = TrySend(parts[1].iov_base, parts[1].iov_len, &more);
    *moved += more;
    return status;
  }
  virtual Status TryReceiveBoth(const iovec (&parts)[2], size_t* moved) {
    HVDLITE_RETURN_IF_ERROR(TryReceive(parts[0].iov_base, parts[0].iov_len, moved));
    if (*moved < parts[0].iov_len) return Status::Ok();
    size_t more = 0;
    const Status status = TryReceive(parts[1].iov_base, parts[1].iov_len, &more);
    *moved += more;
    return status;
  }

  // Nothing more will be sent; the peer sees the end once it has read everything. A connection that
  // is closed with bytes in it that were not read takes back what the peer has not read yet, so
  // an orderly leaver calls this and then receives until that fails.
  virtual void EndSending() {}

  // For people: "the connection of rank 0 (10.0.0.2) with rank 3 (10.0.0.3)".
  virtual std::string Name() const { return "the connection with rank " + std::to_string(peer()); }
  // How far what was sent has got. A peer's kernel acknowledges, whatever its process does.
  struct Acknowledged {
    bool known = false;    // false: nothing can get lost here
    uint64_t bytes = 0;    // so far
    bool waiting = false;  // something is on its way
  };
  virtual Acknowledged acknowledged() const { return {}; }
  // The global rank at the other end.
  virtual int peer() const = 0;
  // A descriptor that poll(2) understands, or -1 when the peer rings a doorbell instead.
  virtual int fd() const = 0;
};

}  // namespace hvdlite::transport
