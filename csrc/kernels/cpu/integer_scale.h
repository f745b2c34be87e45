// One scaling step on integers: to double, times or divided by a factor, truncated towards zero.
//
// What does not fit the type saturates (so uint8 200 * 2 is 255, and a negative product of an
// unsigned one is 0); a NaN becomes 0. A factor of exactly 1 is the caller's to skip: int64 beyond
// 2^53 would lose bits here. Plain code, the same for all instruction sets; a scaled integer is
// rare, and usually short.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace hvdlite::kernels::cpu {

// `to` may be `from`. `dtype` is an integer type, not bool.
void MultiplyIntegers(DType dtype, const void* from, void* to, int64_t count, double factor);
void DivideIntegers(DType dtype, const void* from, void* to, int64_t count, double divisor);

}  // namespace hvdlite::kernels::cpu
