// Region: the part of the host's shared memory that belongs to one process set.
//
//   per member   three flags, each on its own lines:      in   steps copied into my slots
//                                                          mid  reduced steps
//                                                          out  steps that I no longer read
//   per member   kSlots slots of chunk_bytes:             staging; step s uses slot s % kSlots
//   per member   pipes to and from its parent             for negotiation (comm/topology.h)
//   once         the memory of a FastExchange
//
// A flag counts the steps done since the set was created and never goes back, so there is no
// barrier between two operations: a fast member may be up to kSlots steps ahead of a slow one.
//
// Memory ordering: a flag is stored sequentially consistent after the data it announces, and read
// with acquire. Thread-safety: each member's flags are written by that member alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "comm/shm/fast_exchange.h"
#include "transport/shm/doorbells.h"
#include "transport/shm/pipe.h"

namespace hvdlite::comm::shm {

enum class Flag : uint8_t { kIn = 0, kMid = 1, kOut = 2 };

class Region {
 public:
  static constexpr int kSlots = 4;
  static constexpr size_t kPipeBytes = 32 << 10;

  static size_t Footprint(int members, size_t chunk_bytes);

  // `memory`: Footprint bytes, zero when first mapped. `local_ranks`: the members' ranks on this
  // host, whose bells to ring. `chunk_bytes`: the most that a chunk can have.
  Region(void* memory, int me, std::vector<int> local_ranks, size_t chunk_bytes,
         transport::shm::Doorbells* bells);

  int me() const { return me_; }
  int members() const { return static_cast<int>(local_ranks_.size()); }
  size_t chunk_bytes() const { return chunk_bytes_; }
  // The most bytes of a chunk.
  size_t slot_bytes() const { return slot_bytes_; }
  // Changes the size of chunks. All members call it between the same two steps.
  void CutInto(size_t chunk_bytes);

  // The staging memory of `member` for `step`.
  char* Slot(int member, uint64_t step) const {
    return slots_ + (static_cast<size_t>(member) * kSlots + step % kSlots) * slot_bytes_;
  }

  // Announces that this member has done all steps below `count`, and wakes sleeping members.
  void Post(Flag flag, uint64_t count);
  // Whether every member but this one has posted at least `count`.
  bool AllReached(Flag flag, uint64_t count) const;
  bool Reached(Flag flag, int member, uint64_t count) const;

  // This member no longer reads the region. Returns true for the last member to call it (for more
  // than one, if several call it at once).
  bool Leave();

  // Memory for the pipe between `member` (> 0) and its parent.
  void* PipeMemory(int member) const {
    return pipes_ + static_cast<size_t>(member) * transport::shm::Pipe::Footprint(kPipeBytes);
  }

  void* fast_exchange_memory() const { return fast_exchange_; }

  // The next unused step; the same on all members between two operations.
  uint64_t next_step = 0;

 private:
  struct alignas(transport::shm::kPrivateLines) FlagLine {
    std::atomic<uint64_t> value{0};
  };
  std::atomic<uint64_t>& Line(Flag flag, int member) const {
    return flags_[static_cast<size_t>(member) * 3 + static_cast<size_t>(flag)].value;
  }

  const int me_;
  const std::vector<int> local_ranks_;
  const size_t slot_bytes_;
  size_t chunk_bytes_;
  transport::shm::Doorbells* const bells_;
  FlagLine* flags_;
  char* pipes_;
  char* fast_exchange_;
  char* slots_;
  // The value last read of each flag. A member that was ahead need not be read again.
  mutable std::vector<uint64_t> seen_;
};

}  // namespace hvdlite::comm::shm
