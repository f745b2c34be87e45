// What csrc/kernels/cuda needs of CUDA's language, in that of this processor. A block has one
// thread, which is a warp of its own.
#pragma once

#include "fake_gpu/cuda_bits.h"

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

// The warp's other threads are not there: they add nothing.
inline double __shfl_down_sync(unsigned, double, unsigned) {
  return 0.0;
}
inline void __syncthreads() {}
inline void __syncwarp() {}
