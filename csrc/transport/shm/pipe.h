// Pipe: a Transport between two ranks of one host, made of two single-producer single-consumer byte
// rings in shared memory, one per direction. A message costs a memcpy and one cache line hand-over,
// and no system call unless the peer sleeps.
#pragma once

#include <atomic>
#include <cstdint>

#include "transport/shm/doorbells.h"
#include "transport/transport.h"

namespace hvdlite::transport::shm {

// One direction. Positions count bytes since the start and never wrap in practice (64 bits).
struct alignas(kPrivateLines) RingHeader {
  alignas(kPrivateLines) std::atomic<uint64_t> written{0};  // by the producer
  alignas(kPrivateLines) std::atomic<uint64_t> read{0};     // by the consumer
};

class Pipe final : public Transport {
 public:
  // The bytes of shared memory for both directions. `capacity` is per direction, a power of two and
  // at least 128.
  static constexpr size_t Footprint(size_t capacity) { return 2 * (sizeof(RingHeader) + capacity); }

  // `memory` is zeroed memory of Footprint(capacity) bytes; `first` says which end this is (the two
  // ends differ). `peer` is the global rank, `peer_local` the rank on this host whose bell to ring.
  Pipe(void* memory, size_t capacity, bool first, int peer, int peer_local, Doorbells* bells);

  Status TrySend(const void* data, size_t bytes, size_t* moved) override;
  Status TryReceive(void* data, size_t bytes, size_t* moved) override;
  int peer() const override { return peer_; }
  int fd() const override { return -1; }

 private:
  struct Ring {
    RingHeader* header;
    char* data;
  };
  const size_t capacity_;
  const int peer_;
  const int peer_local_;
  Doorbells* const bells_;
  Ring out_;
  Ring in_;
  // The other end's position, as this end last saw it. It saves touching the other end's cache line
  // while there is enough.
  uint64_t out_read_seen_ = 0;
  uint64_t in_written_seen_ = 0;
};

}  // namespace hvdlite::transport::shm
