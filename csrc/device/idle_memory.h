// IdleMemory: blocks of memory that are unused at the moment, by size class, up to a bound in
// bytes.
//
// Sizes are rounded up to one of four steps between two powers of two. So batches of about the same
// size share blocks, and at most a fifth of a block is wasted (small ones aside). Beyond the bound,
// the blocks that have been idle longest are dropped. Thread-safety: none; the owner's mutex.
// IdleMemory does not know where the memory is and frees none: it returns the blocks to free.
#pragma once

#include <bit>
#include <cstddef>
#include <vector>

namespace hvdlite::device {

class IdleMemory {
 public:
  explicit IdleMemory(size_t bound) : bound_(bound) {}

  // The bytes to allocate for `bytes`.
  static size_t ClassOf(size_t bytes) {
    constexpr size_t kSmallest = 4096;
    if (bytes <= kSmallest) return kSmallest;
    const size_t step = std::bit_floor(bytes - 1) / 4;
    return (bytes + step - 1) / step * step;
  }

  // The block of ClassOf(bytes) that was used last; null when there is none.
  void* Take(size_t bytes) {
    const size_t wanted = ClassOf(bytes);
    for (size_t i = blocks_.size(); i-- > 0;) {
      if (blocks_[i].bytes != wanted) continue;
      void* const data = blocks_[i].data;
      blocks_.erase(blocks_.begin() + static_cast<ptrdiff_t>(i));
      held_ -= wanted;
      return data;
    }
    return nullptr;
  }

  // Keeps a block of ClassOf(bytes). Returns the blocks that have to be freed.
  std::vector<void*> Put(void* data, size_t bytes) {
    blocks_.push_back({data, ClassOf(bytes)});
    held_ += ClassOf(bytes);
    return KeepAtMost(bound_);
  }

  // Forgets all blocks and returns them. The caller frees them.
  std::vector<void*> Clear() { return KeepAtMost(0); }

 private:
  struct Block {
    void* data;
    size_t bytes;
  };

  std::vector<void*> KeepAtMost(size_t bytes) {
    std::vector<void*> gone;
    while (held_ > bytes) {
      held_ -= blocks_[gone.size()].bytes;
      gone.push_back(blocks_[gone.size()].data);
    }
    blocks_.erase(blocks_.begin(), blocks_.begin() + static_cast<ptrdiff_t>(gone.size()));
    return gone;
  }

  const size_t bound_;
  size_t held_ = 0;
  std::vector<Block> blocks_;  // the longest unused first
};

}  // namespace hvdlite::device
