// The kernels' promises said again in the plainest possible way, one element at a time: what the
// property tests compare with. Shares no code with csrc/; 16-bit floats are encoded by way of ldexp
// and nearbyint.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "kernels/reduce.h"

namespace hvdlite::kernels::reference {

using Bytes = std::vector<uint8_t>;

// A binary floating format of 16 bits with `kMantissa` stored bits.
template <int kMantissa>
struct Format16 {
  static constexpr int kBias = (1 << (14 - kMantissa)) - 1;
  static constexpr uint16_t kInfinity = static_cast<uint16_t>(0x7fff >> kMantissa << kMantissa);

  static bool IsNan(uint16_t bits) { return (bits & 0x7fff) > kInfinity; }
  static float Decode(uint16_t bits) {
    const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
    const int exponent = (bits & 0x7fff) >> kMantissa;
    const int mantissa = bits & ((1 << kMantissa) - 1);
    if (IsNan(bits)) return std::numeric_limits<float>::quiet_NaN();
    if ((bits & 0x7fff) == kInfinity) return sign * std::numeric_limits<float>::infinity();
    const int implicit = exponent == 0 ? 0 : 1 << kMantissa;
    return sign * std::ldexp(static_cast<float>(implicit + mantissa),
                             (exponent == 0 ? 1 : exponent) - kBias - kMantissa);
  }
  static uint16_t Encode(float value) {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7fff);
    const double magnitude = std::fabs(static_cast<double>(value));
    if (magnitude == 0) return sign;
    if (std::isinf(magnitude)) return static_cast<uint16_t>(sign | kInfinity);
    const int exponent = std::max(std::ilogb(magnitude), 1 - kBias);
    const double units = std::nearbyint(std::ldexp(magnitude, kMantissa - exponent));
    const int bits = ((exponent + kBias - 1) << kMantissa) + static_cast<int>(units);
    return static_cast<uint16_t>(sign | std::min<int>(bits, kInfinity));
  }
};
using Half = Format16<10>;
using Brain = Format16<7>;

// Keeps a compiler from fusing the multiplication that made `value` with the addition that uses it.
template <class T>
T Rounded(T value) {
  volatile T stored = value;
  return stored;
}

template <class T>
T Combine(ReduceOp op, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (op == ReduceOp::kMin || op == ReduceOp::kMax) {
      if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
    }
  }
  switch (op) {
    case ReduceOp::kMin: return a < b ? a : b;
    case ReduceOp::kMax: return a > b ? a : b;
    default: break;
  }
  if constexpr (std::is_floating_point_v<T>) {
    return op == ReduceOp::kProduct ? a * b : a + b;
  } else {
    const uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return static_cast<T>(op == ReduceOp::kProduct ? x * y : x + y);
  }
}

template <class T>
T ScaleInteger(T value, double factor, bool divide) {
  if (factor == 1.0) return value;
  const double scaled = std::trunc(divide ? static_cast<double>(value) / factor
                                          : static_cast<double>(value) * factor);
  if (std::isnan(scaled)) return 0;
  if (scaled >= std::ldexp(1.0, std::numeric_limits<T>::digits))
    return std::numeric_limits<T>::max();
  if (scaled < static_cast<double>(std::numeric_limits<T>::min()))
    return std::numeric_limits<T>::min();
  return static_cast<T>(scaled);
}

template <class T>
T ElementAt(const uint8_t* data, int64_t i) {
  T value;
  std::memcpy(&value, data + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

// Loads and stores through `Decode` and `Encode`, computes in A.
template <class Stored, class A, class Decode, class Encode>
Bytes ReduceFloating(const ReduceSpec& spec, const std::vector<const uint8_t*>& sources,
                     int64_t count, Decode decode, Encode encode) {
  Bytes result(static_cast<size_t>(count) * sizeof(Stored));
  for (int64_t i = 0; i < count; ++i) {
    A sum = 0;
    for (size_t k = 0; k < sources.size(); ++k) {
      const A x = Rounded(decode(ElementAt<Stored>(sources[k], i)) * static_cast<A>(spec.prescale));
      sum = k == 0 ? x : Combine<A>(spec.op, sum, x);
    }
    sum = Rounded(Rounded(sum) / static_cast<A>(spec.divisor)) * static_cast<A>(spec.postscale);
    const Stored stored = encode(sum);
    std::memcpy(result.data() + i * static_cast<int64_t>(sizeof(Stored)), &stored, sizeof(Stored));
  }
  return result;
}

template <class T>
Bytes ReduceIntegers(const ReduceSpec& spec, const std::vector<const uint8_t*>& sources,
                     int64_t count) {
  Bytes result(static_cast<size_t>(count) * sizeof(T));
  for (int64_t i = 0; i < count; ++i) {
    T sum = 0;
    for (size_t k = 0; k < sources.size(); ++k) {
      const T x = ScaleInteger(ElementAt<T>(sources[k], i), spec.prescale, false);
      sum = k == 0 ? x : Combine<T>(spec.op, sum, x);
    }
    sum = ScaleInteger(ScaleInteger(sum, spec.divisor, true), spec.postscale, false);
    std::memcpy(result.data() + i * static_cast<int64_t>(sizeof(T)), &sum, sizeof(T));
  }
  return result;
}

inline Bytes ReduceBools(const ReduceSpec& spec, const std::vector<const uint8_t*>& sources,
                         int64_t count) {
  Bytes result(static_cast<size_t>(count));
  const bool all = spec.op == ReduceOp::kMin || spec.op == ReduceOp::kProduct;
  for (int64_t i = 0; i < count; ++i) {
    bool value = all;
    for (const uint8_t* source : sources)
      value = all ? value && source[i] != 0 : value || source[i] != 0;
    result[static_cast<size_t>(i)] = value ? 1 : 0;
  }
  return result;
}

inline Bytes Reduce(const ReduceSpec& spec, const std::vector<const uint8_t*>& sources,
                    int64_t count) {
  const auto same = [](auto value) { return value; };
  switch (spec.dtype) {
    case DType::kBool: return ReduceBools(spec, sources, count);
    case DType::kUInt8: return ReduceIntegers<uint8_t>(spec, sources, count);
    case DType::kInt8: return ReduceIntegers<int8_t>(spec, sources, count);
    case DType::kUInt16: return ReduceIntegers<uint16_t>(spec, sources, count);
    case DType::kInt16: return ReduceIntegers<int16_t>(spec, sources, count);
    case DType::kUInt32: return ReduceIntegers<uint32_t>(spec, sources, count);
    case DType::kInt32: return ReduceIntegers<int32_t>(spec, sources, count);
    case DType::kUInt64: return ReduceIntegers<uint64_t>(spec, sources, count);
    case DType::kInt64: return ReduceIntegers<int64_t>(spec, sources, count);
    case DType::kFloat16:
      return ReduceFloating<uint16_t, float>(spec, sources, count, Half::Decode, Half::Encode);
    case DType::kBFloat16:
      return ReduceFloating<uint16_t, float>(spec, sources, count, Brain::Decode, Brain::Encode);
    case DType::kFloat32: return ReduceFloating<float, float>(spec, sources, count, same, same);
    case DType::kFloat64: return ReduceFloating<double, double>(spec, sources, count, same, same);
  }
  return {};
}

inline bool IsNanAt(DType dtype, const uint8_t* data, int64_t i) {
  switch (dtype) {
    case DType::kFloat16: return Half::IsNan(ElementAt<uint16_t>(data, i));
    case DType::kBFloat16: return Brain::IsNan(ElementAt<uint16_t>(data, i));
    case DType::kFloat32: return std::isnan(ElementAt<float>(data, i));
    case DType::kFloat64: return std::isnan(ElementAt<double>(data, i));
    default: return false;
  }
}

// The first element whose bits differ, or -1. Any NaN equals any other: payloads are not promised.
inline int64_t FirstDifference(DType dtype, const uint8_t* a, const uint8_t* b, int64_t count) {
  const int64_t size = static_cast<int64_t>(SizeOf(dtype));
  for (int64_t i = 0; i < count; ++i) {
    if (std::memcmp(a + i * size, b + i * size, SizeOf(dtype)) == 0) continue;
    if (!IsNanAt(dtype, a, i) || !IsNanAt(dtype, b, i)) return i;
  }
  return -1;
}

// Random elements. Floating ones are mostly of ordinary size, with every kind of special value
// among them.
class Filler {
 public:
  explicit Filler(uint64_t seed) : random_(seed) {}

  void Fill(DType dtype, uint8_t* data, int64_t count) {
    const int64_t size = static_cast<int64_t>(SizeOf(dtype));
    for (int64_t i = 0; i < count; ++i) {
      uint64_t bits = random_();
      if (dtype == DType::kBool) bits = bits % 3 == 0 ? 0 : (bits % 3 == 1 ? 1 : bits >> 8);
      if (IsFloating(dtype)) {
        const uint64_t kind = random_() % 16;
        if (kind >= 2) bits = Ordinary(dtype);
        if (kind == 1) bits = Special(dtype);
      }
      std::memcpy(data + i * size, &bits, SizeOf(dtype));
    }
  }

 private:
  uint64_t Ordinary(DType dtype) {
    const double value = std::ldexp(static_cast<double>(random_() % 4001) - 2000.0, -9);
    const float narrow = static_cast<float>(value);
    uint64_t bits = 0;
    switch (dtype) {
      case DType::kFloat16: return Half::Encode(narrow);
      case DType::kBFloat16: return Brain::Encode(narrow);
      case DType::kFloat32: std::memcpy(&bits, &narrow, sizeof(narrow)); return bits;
      default: std::memcpy(&bits, &value, sizeof(value)); return bits;
    }
  }

  // Zeros, infinities, the extremes of normal and subnormal numbers and a NaN, of both signs.
  uint64_t Special(DType dtype) {
    const int bits = static_cast<int>(SizeOf(dtype)) * 8;
    const int mantissa = dtype == DType::kFloat16    ? 10
                         : dtype == DType::kBFloat16 ? 7
                         : dtype == DType::kFloat32  ? 23
                                                     : 52;
    const uint64_t sign = random_() % 2 << (bits - 1);
    const uint64_t infinity = (uint64_t{1} << (bits - 1)) - (uint64_t{1} << mantissa);
    const uint64_t values[] = {0,
                               0,
                               1,
                               (uint64_t{1} << mantissa) - 1,
                               uint64_t{1} << mantissa,
                               infinity - 1,
                               infinity,
                               infinity + (uint64_t{1} << (mantissa - 1))};
    return sign | values[random_() % 8];
  }

  std::mt19937_64 random_;
};

}  // namespace hvdlite::kernels::reference
