// Transport: an ordered, reliable, two-way byte pipe between this rank and one peer.
//
// One of the five interfaces. Implemented by tcp/link (between hosts) and shm/pipe (inside a host).
// It moves bytes; it knows no message, no tensor and no collective.
//
// Never blocks: both calls move what fits now and return. How a thread sleeps until more fits is the
// engine's business (one place waits, see engine/idle.h); a transport only says which descriptor to poll.
// Thread-safety: one thread at a time (the holder of the engine's turn).
// Failure: kPeerLost with the peer's global rank when the other side is gone; after that every call fails, but what had
// come before a failed send can still be received.
#pragma once

#include <cstddef>

#include "base/status.h"

namespace hvdlite::transport {

class Transport {
 public:
  virtual ~Transport() = default;

  // *moved is always set: 0 when nothing fits at the moment.
  virtual Status TrySend(const void* data, size_t bytes, size_t* moved) = 0;
  virtual Status TryReceive(void* data, size_t bytes, size_t* moved) = 0;

  // Nothing more will be sent; the peer sees the end once it has read everything. A connection that is closed with bytes
  // in it that nobody read takes back what the peer has not read yet, so whoever leaves in good order calls this and then
  // receives until that fails.
  virtual void EndSending() {}

  // The global rank at the other end.
  virtual int peer() const = 0;
  // A descriptor that poll(2) understands, or -1 when the peer rings a doorbell instead.
  virtual int fd() const = 0;
};

}  // namespace hvdlite::transport
