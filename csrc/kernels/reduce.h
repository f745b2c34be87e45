// Reduction kernels: element-wise combination of N equally long arrays, in one fixed order.
//
// The order is always sources[0], sources[1], ... so the result does not depend on how a tensor was cut
// into chunks or which rank does the work: same world size, same bits. float16 and bfloat16 accumulate in
// float32 and are rounded once; integers wrap; bool treats Sum/Max as OR and Product/Min as AND.
// Thread-safety: pure functions. SIMD is chosen once per process, at the first call (cpu/dispatch.cc).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/ops.h"

namespace hvdlite::kernels {

// What happens to each element:  y = trunc?( trunc?( combine_k( trunc?(x_k * prescale) ) / divisor ) *
// postscale ) Floating types: float16/bfloat16/float32 are scaled in float32, float64 in double, before the
// single rounding. Integers: each scaling step is computed in double and truncated towards zero, as Horovod
// does; bool is never scaled.
struct ReduceSpec {
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;  // kAverage means kSum with divisor = number of members. Never kAdasum here.
  double prescale = 1.0;
  double postscale = 1.0;
  double divisor = 1.0;
};

// destination[i] = finish(combine(prescale * sources[0][i], ..., prescale * sources[n-1][i])), i < count.
// If `second` is not null the same result is stored there as well (a shared slot and the private tensor).
// `destination` and `second` may each be identical to one of the sources; otherwise nothing may overlap.
// n >= 1. No alignment is needed beyond the element's own; 64 bytes is fastest.
void Reduce(const ReduceSpec& spec, void* destination, void* second, const void* const* sources, int n,
            int64_t count);

// The same without finish(): accumulator[i] = combine(accumulator[i], prescale * source[i]). For algorithms
// that add one peer at a time (ring). Rounds to the dtype after each call.
void Accumulate(const ReduceSpec& spec, void* accumulator, const void* source, int64_t count);

// data[i] *= factor in the manner of one scaling step above. In place.
void Scale(DType dtype, void* data, int64_t count, double factor);

// finish() alone, in place: divisor, then postscale.
void Finish(const ReduceSpec& spec, void* data, int64_t count);

// Fills with the value that leaves `op` unchanged is deliberately absent: a joined rank contributes zeros.

// Name of the instruction set in use: "avx512bf16", "avx512", "avx2", "sse2", "neon" or "scalar".
const char* SimdName();

}  // namespace hvdlite::kernels
