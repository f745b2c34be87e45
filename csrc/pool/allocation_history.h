// AllocationHistory: which requests of one size a backward pass frees before it ends.
//
// They are temporary tensors, no gradients. In the pool they would lie in memory that was last used
// in the step before and is no longer in the cache, and they would keep that memory for good. A
// pass makes the same requests as the pass before, in the same order. So a request is known by its
// ordinal, and one that has been freed within its pass, and has never outlived one, is left to the
// C library.
//
// A wrong guess costs time alone: the gradient is reduced by copies. Missed() then ends the
// guessing. Thread-safety: the owner's lock. Threads that run passes at the same time disturb each
// other's ordinals, so that nothing is left to the C library.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace hvdlite::pool {

class AllocationHistory {
 public:
  static constexpr int kNoPass = -1;

  // The next request of this pass. False: leave it to the C library.
  bool Wants(int pass) {
    if (pass == kNoPass) return true;
    if (pass != pass_) Begin(pass);
    const size_t ordinal = asked_++;
    return ordinal >= kMost || (leave_ & Bit(ordinal)) == 0;
  }
  // Its block; only behind Wants() of the same pass.
  void Served(int pass, uint32_t page) {
    if (pass != pass_ || pass == kNoPass || asked_ > kMost) return;
    served_ |= Bit(asked_ - 1);
    pages_[asked_ - 1] = page;
  }
  // The block was freed while this pass ran in the freeing thread.
  void Freed(int pass, uint32_t page) {
    if (pass != pass_ || pass == kNoPass) return;
    // The newest request that got the block; it may have been served, freed and served again.
    for (size_t ordinal = asked_ < kMost ? asked_ : kMost; ordinal-- > 0;) {
      if (pages_[ordinal] != page || (served_ & Bit(ordinal)) == 0) continue;
      freed_ |= Bit(ordinal);
      return;
    }
  }
  // A gradient of this size was found outside the pool.
  void Missed() {
    if (leave_ != 0) guessing_ = false;
    leave_ = 0;
  }

 private:
  static constexpr size_t kMost = 64;

  static uint64_t Bit(size_t ordinal) { return uint64_t{1} << ordinal; }

  void Begin(int pass) {
    const bool as_before = asked_ == asked_before_;
    temporary_ = (as_before ? temporary_ : 0) | freed_;
    kept_ = (as_before ? kept_ : 0) | (served_ & ~freed_);
    leave_ = as_before && guessing_ ? temporary_ & ~kept_ : 0;
    asked_before_ = asked_;
    asked_ = 0;
    served_ = freed_ = 0;
    pass_ = pass;
  }

  int pass_ = kNoPass;
  bool guessing_ = true;
  size_t asked_ = 0;         // requests of this pass
  size_t asked_before_ = 0;  // of the pass before
  // By ordinal: requests of this pass that got a block, and whose blocks were freed.
  uint64_t served_ = 0, freed_ = 0;
  // By ordinal, of the passes that made as many requests: seen to be freed, seen to outlive a pass.
  uint64_t temporary_ = 0, kept_ = 0;
  uint64_t leave_ = 0;
  std::array<uint32_t, kMost> pages_{};
};

}  // namespace hvdlite::pool
