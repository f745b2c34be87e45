// Pool: the memory of this process that other ranks of its host share: one segment in use, and
// retired ones whose blocks live on.
//
// One per process, because the functions that a framework allocates with take no context
// (slots.h). All segments lie in one range of addresses, reserved at the first Open() and never
// given back, so one comparison tells a block from any other memory.
//
// Thread-safety: everything. Lifetime: never destroyed; frees may come after all exit handlers.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>

#include "base/mutex.h"
#include "base/status.h"
#include "pool/segment.h"

namespace hvdlite::pool {

class Pool {
 public:
  static Pool& Process();
  // `segment_bytes`: address space of each segment.
  explicit Pool(size_t segment_bytes) : segment_bytes_(segment_bytes) {}
  Pool(const Pool&) = delete;

  // The segment for a job: the one in use, or a new one if that has been retired. `limit`: see
  // Segment::Limit. kUnsupported says why there is none.
  Status Open(size_t limit, Segment** segment) EXCLUDES(mutex_);
  // OK after an Open() that succeeded.
  Status opened() EXCLUDES(mutex_);
  // See Segment::Expect; also for segments to come.
  void Expect(size_t bytes, int64_t gradients) EXCLUDES(mutex_);
  // Blocks are handed out only where inside() != outside. Null: everywhere. The value tells one
  // backward pass from another.
  void Gate(int (*inside)(), int outside);
  // Whether blocks are handed out at all. They can be freed in any case.
  void Arm(bool on) { armed_.store(on, std::memory_order_release); }

  bool Contains(const void* memory) const {
    // The length is 0 until the start is set.
    const size_t length = length_.load(std::memory_order_acquire);
    return reinterpret_cast<uintptr_t>(memory) - start_.load(std::memory_order_relaxed) < length;
  }
  // Whether a block to free or to resize is the pool's, not the C library's. The file's mapping is
  // not inherited, so a forked child's C library may allocate at these addresses, too.
  bool Owns(const void* block) const {
    return Contains(block) && (!disowned() || SizeOf(block) != 0);
  }
  // In this thread every block is handed out, whatever its size and the gate, while this is on.
  static void TakeAll(bool on);
  // Null: the C library's turn.
  void* Take(size_t bytes, size_t alignment);
  // For a tensor of the program, whether armed or not. Null: allocate it elsewhere.
  void* Allocate(size_t bytes);
  // Of a contained block. Anything else there is reported once and ignored.
  void Give(void* block);
  size_t SizeOf(const void* block) const;
  // Where it lies in the segment in use; -1: not there.
  int64_t OffsetOf(const void* memory) const;
  // Of the segment in use.
  Stats stats() const;
  Segment* current() const { return current_.load(std::memory_order_acquire); }

  // In a forked child: no block is handed out any more, and inherited ones are never freed.
  void Disown();
  bool disowned() const { return disowned_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kPlaces = 8;

  Status Reserve() REQUIRES(mutex_);
  Status OpenLocked(size_t limit, Segment** segment) REQUIRES(mutex_);
  // Releases what can be. A place without a segment; kPlaces: none.
  size_t FreePlace() REQUIRES(mutex_);
  Segment* At(const void* memory) const;
  // Whether this thread may have blocks, and for which pass.
  bool IsInside(int* pass) const;

  const size_t segment_bytes_;
  Mutex mutex_;
  Status opened_ GUARDED_BY(mutex_) = Status::NotInitialized("no job has asked for it");
  std::map<size_t, int64_t> expected_ GUARDED_BY(mutex_);  // by size
  std::atomic<uintptr_t> start_{0};
  std::atomic<size_t> length_{0};
  std::array<std::atomic<Segment*>, kPlaces> places_{};
  std::atomic<Segment*> current_{nullptr};
  std::atomic<int (*)()> inside_{nullptr};
  std::atomic<int> outside_{0};
  std::atomic<bool> armed_{false};
  std::atomic<bool> disowned_{false};
  std::atomic<bool> reported_{false};
};

}  // namespace hvdlite::pool
