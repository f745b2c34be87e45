// Budget: how much memory the blocks of a segment have, and may have.
//
// Gradients come by themselves, so there is a limit for them. The program asks for its tensors, so
// only a fixed limit, which is for both, keeps them from more. Thread-safety: everything.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace hvdlite::pool {

class Budget {
 public:
  // A backward pass has temporary tensors of a gradient's size, and a program may keep gradients.
  static constexpr size_t kBytesPerGradientByte = 3;
  static constexpr size_t kSpareBytes = 64 << 20;  // a model of few gradients needs more than that
  // Of freed tensors: memory that is kept for the next ones.
  static constexpr size_t kMostKept = 64 << 20;

  // Of all blocks. 0: kBytesPerGradientByte times the expected gradients', kSpareBytes, and the
  // program's tensors.
  void Limit(size_t bytes) { fixed_.store(bytes, kRelaxed); }
  // So many more bytes of gradients are expected; fewer, if negative.
  void Expect(int64_t bytes) { expected_.fetch_add(static_cast<size_t>(bytes), kRelaxed); }

  // Whether a new block is within the limit; counts it if so.
  bool ClaimForGradient(size_t bytes) {
    const size_t fixed = fixed_.load(kRelaxed);
    const size_t usual =
        expected_.load(kRelaxed) * kBytesPerGradientByte + kSpareBytes + tensors_.load(kRelaxed);
    return Claim(bytes, fixed != 0 ? fixed : usual);
  }
  bool ClaimForTensor(size_t bytes) {
    const size_t fixed = fixed_.load(kRelaxed);
    if (!Claim(bytes, fixed != 0 ? fixed : SIZE_MAX)) return false;
    tensors_.fetch_add(bytes, kRelaxed);
    return true;
  }
  // A tensor has been freed, and its memory is kept; false: enough is kept already.
  bool Keep(size_t bytes) {
    if (kept_.fetch_add(bytes, kRelaxed) + bytes <= kMostKept) return true;
    kept_.fetch_sub(bytes, kRelaxed);
    return false;
  }
  // Memory that was kept is in use again.
  void Reuse(size_t bytes) { kept_.fetch_sub(bytes, kRelaxed); }
  // A tensor's memory goes back to the system.
  void Return(size_t bytes) {
    tensors_.fetch_sub(bytes, kRelaxed);
    all_.fetch_sub(bytes, kRelaxed);
  }

  size_t bytes() const { return all_.load(kRelaxed); }

 private:
  static constexpr auto kRelaxed = std::memory_order_relaxed;

  bool Claim(size_t bytes, size_t limit) {
    size_t before = all_.load(kRelaxed);
    do {
      if (before > limit || bytes > limit - before) return false;
    } while (!all_.compare_exchange_weak(before, before + bytes, kRelaxed));
    return true;
  }

  std::atomic<size_t> fixed_{0};
  std::atomic<size_t> expected_{0};
  std::atomic<size_t> all_{0};
  std::atomic<size_t> tensors_{0};  // of all_
  std::atomic<size_t> kept_{0};     // of tensors_: in free blocks
};

}  // namespace hvdlite::pool
