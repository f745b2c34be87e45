// Segment: shared memory in which gradients are allocated, so that other ranks of the host can
// read and write them in place.
//
//   file    one anonymous file (memfd), mapped once; large and sparse: a block costs memory from
//           its first allocation on
//   class   the blocks of one exact size: a stack of free ones, used last in first out
//   block   begins on a page; `owner` says for each page which class's block begins there and
//           whether it is allocated
//
// A segment ends in one of two ways, and its blocks stay readable and writable in both:
//
//   Retire()        another rank may still write into it, and must not: this process gets private
//                   copies of the allocated blocks at the same addresses
//   CopyInChild()   in a forked child, which must not share memory with its parent's ranks
//
// Thread-safety: everything but Create and CopyInChild. Failure: Take returns null, and the caller
// asks the C library instead. Lifetime: blocks outlive every job, so the process's segments are
// never destroyed (pool.h).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/fd.h"
#include "base/mutex.h"
#include "base/status.h"
#include "pool/habit.h"

namespace hvdlite::pool {

// Smaller gradients travel together, by copies, and gain nothing here.
constexpr size_t kSmallestBlock = 16 << 10;

struct Stats {
  uint64_t hits = 0;    // blocks handed out
  uint64_t misses = 0;  // refused although the size is known: too many, or no memory
  uint64_t live = 0;    // blocks allocated now
  uint64_t bytes = 0;   // of all blocks made
};

class Segment {
 public:
  // Maps `bytes` of address space, at `address` if that is not null (it must be reserved for it).
  static Status Create(void* address, size_t bytes, std::unique_ptr<Segment>* segment);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  // So many more gradients of this size are expected; fewer, if negative. Sizes below
  // kSmallestBlock are ignored.
  void Expect(size_t bytes, int64_t gradients) EXCLUDES(classes_mutex_);
  // All blocks together have at most so many bytes. 0: kBytesPerGradientByte times the expected
  // gradients', and kSpareBytes.
  void Limit(size_t bytes) { limit_.store(bytes, std::memory_order_relaxed); }

  bool Serves(size_t bytes) const { return Find(bytes) != nullptr; }
  // Of exactly this size; null: there is none, or the request is one that its backward pass frees
  // (habit.h). `pass`: the one that runs in this thread.
  void* Take(size_t bytes, int pass = Habit::kNoPass);
  // False: no allocated block begins there.
  bool Give(void* block, int pass = Habit::kNoPass);
  // A gradient of this size lies elsewhere.
  void Missed(size_t bytes);
  // The size of the block that begins there; 0: none does.
  size_t SizeOf(const void* block) const;

  int fd() const { return fd_.get(); }
  char* base() const { return base_; }
  size_t bytes() const { return bytes_; }
  bool Contains(const void* memory) const {
    return reinterpret_cast<uintptr_t>(memory) - reinterpret_cast<uintptr_t>(base_) < bytes_;
  }
  bool retired() const { return retired_.load(std::memory_order_acquire); }
  uint64_t live() const { return live_.load(std::memory_order_relaxed); }
  Stats stats() const;

  void Retire() EXCLUDES(classes_mutex_);
  // Gives the memory of a retired segment back to the system, not its addresses. False: there are
  // allocated blocks.
  bool Release();
  void CopyInChild();

  // A backward pass has temporary tensors of a gradient's size, and a program may keep gradients.
  static constexpr int64_t kBlocksPerGradient = 8;
  static constexpr size_t kBytesPerGradientByte = 3;
  static constexpr size_t kSpareBytes = 64 << 20;  // a model of few gradients needs more than that

 private:
  static constexpr size_t kMostClasses = 512;
  static constexpr size_t kTableSize = 1024;  // half empty at least
  static constexpr uint16_t kLive = 0x8000;

  struct Class {
    size_t bytes = 0;
    uint16_t number = 0;  // from 1 on
    Mutex mutex;
    int64_t expected GUARDED_BY(mutex) = 0;
    size_t made GUARDED_BY(mutex) = 0;
    std::vector<uint32_t> free GUARDED_BY(mutex);  // numbers of pages
    Habit habit GUARDED_BY(mutex);
    std::atomic<uint64_t> hits{0}, misses{0};
  };

  Segment(int fd, char* base, size_t bytes) : fd_(fd), base_(base), bytes_(bytes) {}
  static size_t Hash(size_t bytes) { return bytes * 0x9E3779B97F4A7C15ull >> 54; }
  Class* Find(size_t bytes) const;
  Class* FindOrAdd(size_t bytes) REQUIRES(classes_mutex_);
  void* HandOut(Class* its, uint32_t page, int pass) REQUIRES(its->mutex);
  // A new block's first page, populated; false: there is no memory, or none allowed.
  bool Make(size_t bytes, uint32_t* page);
  // Whether so many bytes more are within the limit; counts them if so.
  bool Claim(size_t bytes);
  bool MapPrivately(int how);

  Fd fd_;
  char* const base_;
  const size_t bytes_;
  std::atomic<uint16_t>* owner_ = nullptr;  // by page: a class's number, and kLive
  Mutex classes_mutex_;                     // adding one
  size_t class_count_ GUARDED_BY(classes_mutex_) = 0;
  std::array<std::unique_ptr<Class>, kMostClasses + 1> classes_;  // by number
  std::array<std::atomic<Class*>, kTableSize> table_{};           // by size, open addressing
  std::atomic<size_t> used_{0};                                   // where the next block begins
  std::atomic<size_t> made_bytes_{0};
  std::atomic<size_t> limit_{0};
  std::atomic<size_t> expected_bytes_{0};
  std::atomic<uint64_t> live_{0};
  std::atomic<int> making_{0};  // threads in Make()
  std::atomic<bool> retired_{false};
};

}  // namespace hvdlite::pool
