// One scaling step on integers: converts to double, multiplies or divides by a factor, and
// truncates towards zero.
//
// A result that does not fit the type saturates (so uint8 200 * 2 is 255, and a negative product of
// an unsigned type is 0); a NaN becomes 0. The caller skips a factor of exactly 1, because int64
// beyond 2^53 would lose bits here. This is plain code, the same for all instruction sets: a scaled
// integer is rare, and usually short.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace hvdlite::kernels::cpu {

// `to` may be `from`. `dtype` is an integer type, not bool.
void MultiplyIntegers(DType dtype, const void* from, void* to, int64_t count, double factor);
void DivideIntegers(DType dtype, const void* from, void* to, int64_t count, double divisor);

}  // namespace hvdlite::kernels::cpu
