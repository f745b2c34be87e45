// A 64-bit digest of bytes, to compare the copies of a tensor that several ranks have.
//
// It changes with every error within one word of 32 bits, so with every flipped bit. Two contents
// that differ elsewhere have the same digest by chance only, and nothing is promised against
// contents that are made to collide. The same bytes give the same digest on every processor.
//
// Cost: the bytes are read once, at the speed of memory. Thread-safety: a pure function. SIMD is
// chosen once per process (cpu/dispatch.cc).
#pragma once

#include <cstddef>
#include <cstdint>

namespace hvdlite::kernels {

uint64_t Digest(const void* data, size_t bytes);

}  // namespace hvdlite::kernels
