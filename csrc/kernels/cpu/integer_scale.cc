#include "kernels/cpu/integer_scale.h"

#include <limits>

namespace hvdlite::kernels::cpu {
namespace {

template <class T>
T Saturate(double value) {
  // The first double above the range: max() itself is not a double for 64-bit types.
  // NOLINTNEXTLINE(bugprone-integer-division): half of it, rounded up, is a power of two
  constexpr double kEnd = static_cast<double>(std::numeric_limits<T>::max() / 2 + 1) * 2.0;
  constexpr double kLowest = static_cast<double>(std::numeric_limits<T>::min());
  // Selections instead of branches, and a conversion that is always in range, let the narrow types
  // vectorise.
  const bool above = value >= kEnd, below = value <= kLowest,
             inside = value > kLowest && value < kEnd;
  const T whole = static_cast<T>(inside ? value : 0.0);
  return above ? std::numeric_limits<T>::max() : below ? std::numeric_limits<T>::min() : whole;
}

template <class T, class Step>
void Each(const void* from, void* to, int64_t count, Step step) {
  const T* in = static_cast<const T*>(from);
  T* out = static_cast<T*>(to);
  for (int64_t i = 0; i < count; ++i) out[i] = Saturate<T>(step(static_cast<double>(in[i])));
}

template <class Step>
void EachOf(DType dtype, const void* from, void* to, int64_t count, Step step) {
  switch (dtype) {
    case DType::kUInt8: return Each<uint8_t>(from, to, count, step);
    case DType::kInt8: return Each<int8_t>(from, to, count, step);
    case DType::kUInt16: return Each<uint16_t>(from, to, count, step);
    case DType::kInt16: return Each<int16_t>(from, to, count, step);
    case DType::kUInt32: return Each<uint32_t>(from, to, count, step);
    case DType::kInt32: return Each<int32_t>(from, to, count, step);
    case DType::kUInt64: return Each<uint64_t>(from, to, count, step);
    case DType::kInt64: return Each<int64_t>(from, to, count, step);
    case DType::kBool:
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32:
    case DType::kFloat64: return;
  }
}

}  // namespace

void MultiplyIntegers(DType dtype, const void* from, void* to, int64_t count, double factor) {
  EachOf(dtype, from, to, count, [factor](double value) { return value * factor; });
}

void DivideIntegers(DType dtype, const void* from, void* to, int64_t count, double divisor) {
  EachOf(dtype, from, to, count, [divisor](double value) { return value / divisor; });
}

}  // namespace hvdlite::kernels::cpu
