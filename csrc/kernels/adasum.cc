#include "kernels/adasum.h"

#include <cmath>
#include <limits>

#include "kernels/cpu/dispatch.h"

namespace hvdlite::kernels {
namespace {

// sqrt(DBL_MIN). Below it the square is so near to underflow that the quotient is meaningless. A
// vector that short counts as orthogonal to everything.
constexpr double kShortest = 0x1p-511;

double Coefficient(double ab, double square) {
  return square < kShortest ? 1.0 : 1.0 - ab / (2.0 * square);
}

}  // namespace

AdasumDots AdasumDot(DType dtype, const void* a, const void* b, int64_t count) {
  const cpu::KernelTable::DotKernel dot = cpu::ActiveTable().dot[static_cast<int>(dtype)];
  if (dot == nullptr || count <= 0) return {};
  double sums[3];
  dot(a, b, count, sums);
  return {sums[0], sums[1], sums[2]};
}

void AdasumCombine(DType dtype, void* a, const void* b, int64_t count, const AdasumDots& dots) {
  const cpu::KernelTable::BlendKernel blend = cpu::ActiveTable().blend[static_cast<int>(dtype)];
  if (blend == nullptr || count <= 0) return;
  blend(a, b, count, Coefficient(dots.ab, dots.aa), Coefficient(dots.ab, dots.bb));
}

}  // namespace hvdlite::kernels
