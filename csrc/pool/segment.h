// Segment: shared memory in which gradients, and tensors of the program, are allocated, so that
// other ranks of the host can read and write them in place.
//
//   file    one anonymous file (memfd), mapped once; large and sparse: a block costs memory from
//           its first allocation on
//   class   the blocks of one exact size: a stack of free ones, used last in first out. The
//           program's tensors (tensors.cc) have classes of their own, of rounded sizes, because
//           they may have any size; beyond a limit, freed ones give their memory back
//   block   begins on a page, a large one on a huge page; `owner` says for each page which class's
//           block begins there, whether it is allocated, and whether it is private
//
// An allocated block becomes private, with the same bytes at the same address, in two cases:
//
//   Retire()       another rank may still write into the file, and must not write into the block;
//                  the segment is out of use from then on
//   BeforeFork()   the child inherits private memory as any other, and must not share memory with
//                  the ranks. The block returns to the file when it is lent or handed out again
//
// Thread-safety: everything but Create. Failure: Take returns null, and the caller asks the C
// library instead. Lifetime: blocks outlive every job, so the process's segments are never
// destroyed (pool.h).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mutex.h"
#include "base/status.h"
#include "pool/allocation_history.h"
#include "pool/budget.h"

namespace hvdlite::pool {

// Smaller gradients travel together, by copies, and gain nothing here.
constexpr size_t kSmallestBlock = 16 << 10;

struct Stats {
  uint64_t hits = 0;    // blocks handed out for gradients
  uint64_t misses = 0;  // refused although the size is known: too many, or no memory
  uint64_t live = 0;    // blocks allocated now
  uint64_t bytes = 0;   // memory of all blocks
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
  // All blocks together have at most so many bytes; see Budget::Limit.
  void Limit(size_t bytes) { budget_.Limit(bytes); }

  bool Serves(size_t bytes) const { return Find(bytes) != nullptr; }
  // Of exactly this size; null: there is none, or the request is one that its backward pass frees
  // (allocation_history.h). `pass`: the one that runs in this thread.
  void* Take(size_t bytes, int pass = AllocationHistory::kNoPass);
  // For a tensor of the program, of any size from kSmallestBlock on; null: there is no memory.
  void* Allocate(size_t bytes) EXCLUDES(classes_mutex_);
  // False: no allocated block begins there.
  bool Give(void* block, int pass = AllocationHistory::kNoPass);
  // The size of the block that begins there, a tensor's rounded up; 0: none does.
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

  // What other ranks are told is theirs to read and write between the two calls, which a fork waits
  // for. Threads may lend at the same time.
  void BeginLending() EXCLUDES(lending_mutex_);
  void EndLending() EXCLUDES(lending_mutex_);
  // Where the tensor lies in the file; -1: not there.
  int64_t Lend(const void* tensor, size_t bytes);

  void Retire() EXCLUDES(classes_mutex_);
  // Gives the memory of a retired segment back to the system, not its addresses. False: there are
  // allocated blocks.
  bool Release();
  // The fork comes between the two calls, in one thread; the second one is made in the child, too.
  // Until then no other thread takes or frees a block. Blocks that are still lent after `longest`
  // do not exist in the child.
  void BeforeFork(Nanos longest);
  void AfterFork();

  // A backward pass has temporary tensors of a gradient's size, and a program may keep gradients.
  static constexpr int64_t kBlocksPerGradient = 8;
  // Sizes of tensors between one power of two and the next.
  static constexpr size_t kSizesPerDoubling = 16;

 private:
  static constexpr auto kRelaxed = std::memory_order_relaxed;
  static constexpr size_t kMostClasses = 1024;
  static constexpr size_t kTableSize = 2048;  // half empty at least
  static constexpr uint16_t kLive = 0x8000;
  static constexpr uint16_t kPrivate = 0x4000;
  static constexpr uint16_t kNumber = kPrivate - 1;

  struct Class {
    size_t bytes = 0;
    uint16_t number = 0;  // from 1 on
    bool of_tensors = false;
    Mutex mutex;
    int64_t expected GUARDED_BY(mutex) = 0;
    size_t made GUARDED_BY(mutex) = 0;
    std::vector<uint32_t> free GUARDED_BY(mutex);  // numbers of pages
    AllocationHistory history GUARDED_BY(mutex);
    // Of tensors: blocks without memory, and the bytes that were asked for.
    std::vector<uint32_t> empty GUARDED_BY(mutex);
    std::unordered_map<uint32_t, size_t> asked GUARDED_BY(mutex);
    std::atomic<uint64_t> hits{0}, misses{0};

    // What a whole tensor or gradient has, without the rest of its block.
    size_t AskedFor(uint32_t page) const REQUIRES(mutex) {
      const auto found = asked.find(page);
      return found == asked.end() ? bytes : found->second;
    }
  };

  Segment(int fd, char* base, size_t bytes) : fd_(fd), base_(base), bytes_(bytes) {}
  Class* Find(size_t bytes) const;
  Class* FindOrAdd(size_t bytes) REQUIRES(classes_mutex_);
  Class* FindOrAddOfTensors(size_t bytes) EXCLUDES(classes_mutex_);
  // Null: there are too many.
  Class* Add(size_t bytes) REQUIRES(classes_mutex_);
  void* HandOut(Class* its, uint32_t page, int pass) REQUIRES(its->mutex);
  // A new block's first page, populated; false: there is no memory, or none allowed.
  bool Make(size_t bytes, uint32_t* page);
  bool MakeTensor(const Class& its, bool has_addresses, uint32_t* page);
  // Unused addresses; false: there are too few.
  bool FindAddresses(size_t bytes, size_t* at);
  // Gives addresses memory; false: there is none.
  bool Furnish(size_t at, size_t bytes);
  // A tensor was freed: its block is kept, or gives its memory back.
  void KeepOrEmpty(Class* its, uint32_t page) REQUIRES(its->mutex);
  Class* ClassOf(uint16_t owner) const { return classes_[owner & kNumber].get(); }
  // Makes the allocated blocks private; what fails stays as it was.
  void MakePrivate();
  void MakePrivate(size_t first_page, size_t end_page);
  // Maps a private block from the file again, with its bytes if `keep`.
  bool Return(const Class& its, uint32_t page, bool keep) REQUIRES(its.mutex);

  Fd fd_;
  char* const base_;
  const size_t bytes_;
  std::atomic<uint16_t>* owner_ = nullptr;  // by page: a class's number, kLive, kPrivate
  Mutex classes_mutex_;                     // adding one
  size_t class_count_ GUARDED_BY(classes_mutex_) = 0;
  std::map<size_t, Class*> of_tensors_ GUARDED_BY(classes_mutex_);  // by size
  std::array<std::unique_ptr<Class>, kMostClasses + 1> classes_;    // by number
  std::array<std::atomic<Class*>, kTableSize> table_{};             // by size, open addressing
  std::atomic<size_t> used_{0};                                     // where the next block begins
  Budget budget_;
  std::atomic<uint64_t> live_{0};
  std::atomic<int> making_{0};  // threads in Make()
  std::atomic<bool> retired_{false};
  Mutex lending_mutex_;  // before classes_mutex_, before a class's
  CondVar lending_ended_;
  int lending_ GUARDED_BY(lending_mutex_) = 0;
};

}  // namespace hvdlite::pool
