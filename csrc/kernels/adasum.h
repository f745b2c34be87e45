// Adasum's arithmetic: adasum(a, b) = (1 - a.b / (2 |a|^2)) a + (1 - a.b / (2 |b|^2)) b. A
// coefficient is 1 if its squared norm is below sqrt(DBL_MIN). Supports float16, bfloat16, float32
// and float64; the dots of other types are zeros, and combining leaves them alone. Thread-safety:
// pure functions.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace hvdlite::kernels {

struct AdasumDots {
  double ab = 0, aa = 0, bb = 0;
};

// Dot products over `count` elements, accumulated in double, with the same bits on every
// instruction set. The dots of pieces added up differ in rounding from the dots of the whole, so
// all ranks must cut alike.
AdasumDots AdasumDot(DType dtype, const void* a, const void* b, int64_t count);

// a = coefficient(dots.aa) * a + coefficient(dots.bb) * b, in place in `a`. 16-bit types are
// computed in float32, the others in double, and rounded once. `b` may be `a`; nothing else may
// overlap.
void AdasumCombine(DType dtype, void* a, const void* b, int64_t count, const AdasumDots& dots);

}  // namespace hvdlite::kernels
