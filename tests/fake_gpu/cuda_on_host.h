// What csrc/kernels/cuda needs of CUDA's language, in that of this processor. A block has one
// thread, which is a warp of its own.
#pragma once

#include <cmath>
#include <cstring>

#define __device__
#define __global__
#define __launch_bounds__(threads)
#define __grid_constant__
#define __shared__

struct Dimension {
  unsigned x = 1;
};
constexpr Dimension blockDim{1};
constexpr Dimension threadIdx{0};
inline thread_local Dimension blockIdx{0};
inline thread_local Dimension gridDim{1};

// Elements of every type are moved as these.
struct __attribute__((may_alias, aligned(16))) uint4 {
  unsigned x, y, z, w;
};

inline float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
inline unsigned __float_as_uint(float value) {
  if (value != value) return 0x7fffffff;  // what a GPU computes when it computes a NaN
  unsigned bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// The warp's other threads are not there: they add nothing.
inline double __shfl_down_sync(unsigned, double, unsigned) {
  return 0.0;
}
inline void __syncthreads() {}
inline void __syncwarp() {}

inline float __fsqrt_rn(float value) {
  return std::sqrt(value);
}
