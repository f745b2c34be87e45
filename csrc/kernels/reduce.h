// Reduction kernels: element-wise combination of N equally long arrays, in one fixed order.
//
// The order is always sources[0], sources[1], ... So the result does not depend on how a tensor was
// cut into chunks, on the rank that does the work, or on its processor's instruction set: the same
// world size gives the same bits. There are two exceptions. A NaN stays a NaN, but its bits may
// differ. If the calling thread flushes subnormals to zero, so do the kernels.
//
//   float16, bfloat16   accumulate in float32 and are rounded once, to nearest even
//   integers            wrap around in sums and products
//   bool                Sum, Average and Max are OR, Product and Min are AND;
//                       any byte but 0 is true, results are 0 or 1
//   Min, Max            of floats: a NaN on either side wins, as in numpy;
//                       of -0 and +0 the one from the later source
//
// Cost: every source is read once and every destination written once, at the speed of memory
// (scaled integers: at the speed of the processor, less than one element per ns). Thread-safety:
// pure functions. SIMD is chosen once per process, at the first call (cpu/dispatch.cc).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/ops.h"

namespace hvdlite::kernels {

// What happens to each element:
//
//   y = trunc?( trunc?( combine_k( trunc?(x_k * prescale) ) / divisor ) * postscale )
//
// Floating types: float16/bfloat16/float32 are scaled in float32, float64 in double, before the
// single rounding. The division is a division, never a multiplication by a rounded reciprocal.
// Integers: each scaling step is computed in double and truncated towards zero, as Horovod does. A
// result that does not fit the type saturates, and a NaN becomes 0. A factor of exactly 1 is no
// step at all. Bool is never scaled.
struct ReduceSpec {
  DType dtype = DType::kFloat32;
  // kAverage means kSum with divisor = number of members. Never kAdasum here.
  ReduceOp op = ReduceOp::kSum;
  double prescale = 1.0;
  double postscale = 1.0;
  double divisor = 1.0;
};

// destination[i] = finish(combine(prescale * sources[0][i], ..., prescale * sources[n-1][i])), i <
// count. If `second` is not null the same result is stored there as well (a shared slot and the
// private tensor). `destination` and `second` may each be identical to one of the sources;
// otherwise nothing may overlap. n >= 1; nothing happens if count is 0. No alignment is needed; 64
// bytes is fastest (by some 10 %).
void Reduce(const ReduceSpec& spec, void* destination, void* second, const void* const* sources,
            int n, int64_t count);

// Reduce() of float16 or bfloat16 without its rounding, for sums that are continued elsewhere.
// RoundFromFloat() rounds them.
void ReduceToFloat(const ReduceSpec& spec, float* destination, const void* const* sources, int n,
                   int64_t count);
// Nothing may overlap.
void RoundFromFloat(DType dtype, void* destination, const float* source, int64_t count);

// data[i] *= factor, as one scaling step above. In place; bool is left alone.
void Scale(DType dtype, void* data, int64_t count, double factor);

// finish() alone, in place: divisor, then postscale.
void Finish(const ReduceSpec& spec, void* data, int64_t count);

// There is deliberately no function that fills with the neutral value of `op`: a joined rank
// contributes zeros.

// Name of the instruction set in use: "avx512", "avx2", "sse2", "neon" or "scalar".
const char* SimdName();

}  // namespace hvdlite::kernels
