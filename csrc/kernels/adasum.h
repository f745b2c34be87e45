// Adasum's arithmetic: adasum(a, b) = (1 - a.b / (2 |a|^2)) a + (1 - a.b / (2 |b|^2)) b. A
// coefficient is 1 where its squared norm is below sqrt(DBL_MIN). float16, bfloat16, float32,
// float64 only: other types give zeros and are left alone. Thread-safety: pure functions.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace hvdlite::kernels {

struct AdasumDots {
  double ab = 0, aa = 0, bb = 0;
};

// Dot products over `count` elements, accumulated in double; the same bits on every instruction
// set. Cutting a tensor into pieces and adding their dots rounds differently from one call, so all
// ranks must cut alike.
AdasumDots AdasumDot(DType dtype, const void* a, const void* b, int64_t count);

// a = coefficient(dots.aa) * a + coefficient(dots.bb) * b, in place in `a`. 16-bit types are
// computed in float32, the others in double, and rounded once. `b` may be `a`; nothing else may
// overlap.
void AdasumCombine(DType dtype, void* a, const void* b, int64_t count, const AdasumDots& dots);

}  // namespace hvdlite::kernels
