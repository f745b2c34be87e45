#include "transport/shm/pipe.h"

#include <algorithm>
#include <cstring>

namespace hvdlite::transport::shm {

Pipe::Pipe(void* memory, size_t capacity, bool first, int peer, int peer_local, Doorbells* bells)
    : capacity_(capacity), peer_(peer), peer_local_(peer_local), bells_(bells) {
  // A new ring is all zeros, like a new mapping. Neither end may construct it, because the other
  // may be ahead already.
  char* base = static_cast<char*>(memory);
  const auto ring = [&](size_t index) {
    char* start = base + index * (sizeof(RingHeader) + capacity);
    return Ring{reinterpret_cast<RingHeader*>(start), start + sizeof(RingHeader)};
  };
  out_ = ring(first ? 0 : 1);
  in_ = ring(first ? 1 : 0);
}

Status Pipe::TrySend(const void* data, size_t bytes, size_t* moved) {
  const uint64_t written = out_.header->written.load(std::memory_order_relaxed);
  if (capacity_ - (written - out_read_seen_) < bytes) {
    out_read_seen_ = out_.header->read.load(std::memory_order_seq_cst);
  }
  const size_t n = std::min<size_t>(bytes, capacity_ - (written - out_read_seen_));
  *moved = n;
  if (n == 0) return Status::Ok();
  const size_t at = written & (capacity_ - 1);
  const size_t head = std::min(n, capacity_ - at);
  memcpy(out_.data + at, data, head);
  memcpy(out_.data, static_cast<const char*>(data) + head, n - head);
  out_.header->written.store(written + n, std::memory_order_seq_cst);
  bells_->Ring(peer_local_);
  return Status::Ok();
}

Status Pipe::TryReceive(void* data, size_t bytes, size_t* moved) {
  const uint64_t read = in_.header->read.load(std::memory_order_relaxed);
  if (in_written_seen_ - read < bytes)
    in_written_seen_ = in_.header->written.load(std::memory_order_seq_cst);
  const size_t available = in_written_seen_ - read;
  const size_t n = std::min(bytes, available);
  *moved = n;
  if (n == 0) return Status::Ok();
  const size_t at = read & (capacity_ - 1);
  const size_t head = std::min(n, capacity_ - at);
  memcpy(data, in_.data + at, head);
  memcpy(static_cast<char*>(data) + head, in_.data, n - head);
  in_.header->read.store(read + n, std::memory_order_seq_cst);
  // A producer that sleeps for want of space found the ring full. So one of the reads that empty it
  // starts with at least half of it in view, even if `in_written_seen_` was old before.
  if (available >= capacity_ / 2) bells_->Ring(peer_local_);
  return Status::Ok();
}

}  // namespace hvdlite::transport::shm
