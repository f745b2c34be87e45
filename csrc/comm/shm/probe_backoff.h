// ProbeBackoff: whether the members of a host should ask one another where a batch's tensors lie
// (in_place.h), which takes a hand-over.
//
// A batch whose tensors lay elsewhere is asked about less and less often, down to every 64th time.
// So ordinary tensors pay nothing that can be measured, and gradients are found again when they
// come to lie in shared memory. Pure; all members see the same batches and the same answers in the
// same order, so they decide alike without a word.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace hvdlite::comm::shm {

class ProbeBackoff {
 public:
  static constexpr uint8_t kMostSkipped = 63;

  // `shape` stands for the batches that are alike.
  bool Asks(uint64_t shape) {
    Entry& its = Of(shape);
    if (its.shape != shape) its = {shape, 0, 0};
    if (its.left == 0) return true;
    --its.left;
    return false;
  }
  // What came of it.
  void Learn(uint64_t shape, bool any_shared) {
    Entry& its = Of(shape);
    if (its.shape != shape) return;
    const int next = its.skipped * 2 + 1;
    its.skipped = any_shared ? 0 : static_cast<uint8_t>(next < kMostSkipped ? next : kMostSkipped);
    its.left = its.skipped;
  }

 private:
  struct Entry {
    uint64_t shape = 0;
    uint8_t skipped = 0;  // between the last two questions
    uint8_t left = 0;     // to skip before the next one
  };
  static constexpr size_t kEntries = 256;

  Entry& Of(uint64_t shape) { return entries_[(shape * 0x9E3779B97F4A7C15ull >> 56) % kEntries]; }

  std::array<Entry, kEntries> entries_{};
};

}  // namespace hvdlite::comm::shm
