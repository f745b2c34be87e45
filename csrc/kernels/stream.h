// Copies past the caches, where the instruction set can: the lines of a large result need not be
// read before they are written, and those of other tensors stay in the caches.
#pragma once

#include <cstdint>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace hvdlite::kernels {

// Tensors from this size on are results that no cache keeps until they are read.
constexpr int64_t kStreamFrom = int64_t{1} << 18;  // elements

// Call EndStreaming() before another thread may read.
inline void StreamCopy(const float* from, int64_t count, float* to) {
  int64_t at = 0;
#if defined(__SSE2__)
  while (at < count && reinterpret_cast<uintptr_t>(to + at) % sizeof(__m128) != 0) {
    to[at] = from[at];
    ++at;
  }
  for (; at + 4 <= count; at += 4) _mm_stream_ps(to + at, _mm_loadu_ps(from + at));
#endif
  std::memcpy(to + at, from + at, static_cast<size_t>(count - at) * sizeof(float));
}

inline void EndStreaming() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace hvdlite::kernels
