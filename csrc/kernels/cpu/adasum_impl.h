// Adasum's two loops. Include only from table_<isa>.cc.
//
// Dot: element i is added to double sum number i % 16, and the sixteen sums are added as a tree; that order
// does not depend on the width of the vectors, so neither do the bits. 16-bit types are first widened, a
// block that stays in the L1 cache at a time. Blend works in float32 for 16-bit types and in double for the
// others, rounding once.
#pragma once

#include "kernels/cpu/half_simd.h"
#include "kernels/cpu/simd.h"

namespace hvdlite::kernels::cpu {
namespace {

constexpr int kLanes = 16;
constexpr int kDoubles = kVectorBytes / sizeof(double);
constexpr int kRegisters = kLanes / kDoubles;  // per product

template <class T>
HVDLITE_INLINE VDouble WidenToDouble(const T* from) {
  return __builtin_convertvector((Load<Vector<T, sizeof(T) * kDoubles>>(from)), VDouble);
}

struct DotSums {
  VDouble ab[kRegisters] = {}, aa[kRegisters] = {}, bb[kRegisters] = {};

  template <class T>
  HVDLITE_INLINE void AddLanes(const T* a, const T* b) {
#pragma GCC unroll 8
    for (int r = 0; r < kRegisters; ++r) {
      const VDouble x = WidenToDouble(a + r * kDoubles), y = WidenToDouble(b + r * kDoubles);
      ab[r] += x * y;
      aa[r] += x * x;
      bb[r] += y * y;
    }
  }

  // `count` is a multiple of kLanes except for the last call.
  template <class T>
  HVDLITE_INLINE void Add(const T* a, const T* b, int64_t count) {
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) AddLanes(a + i, b + i);
    if (i == count) return;
    T x[kLanes] = {}, y[kLanes] = {};
    __builtin_memcpy(x, a + i, static_cast<size_t>(count - i) * sizeof(T));
    __builtin_memcpy(y, b + i, static_cast<size_t>(count - i) * sizeof(T));
    AddLanes(x, y);
  }
};

HVDLITE_INLINE double TreeSum(const VDouble* sums) {
  double lanes[kLanes];
  __builtin_memcpy(lanes, sums, sizeof(lanes));
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

HVDLITE_INLINE void StoreDots(const DotSums& sums, double out[3]) {
  out[0] = TreeSum(sums.ab);
  out[1] = TreeSum(sums.aa);
  out[2] = TreeSum(sums.bb);
}

template <class T>
void Dot(const void* a, const void* b, int64_t count, double out[3]) {
  DotSums sums;
  sums.Add(static_cast<const T*>(a), static_cast<const T*>(b), count);
  StoreDots(sums, out);
}

template <class Half>
void DotOfHalves(const void* a, const void* b, int64_t count, double out[3]) {
  constexpr int64_t kBlock = 512;
  constexpr int kFloats = kVectorBytes / sizeof(float);
  alignas(kVectorBytes) float x[kBlock], y[kBlock];
  const auto widen = [](const char* from, float* to) __attribute__((always_inline)) {
    for (int64_t i = 0; i < kBlock; i += kFloats) Store(to + i, Half::LoadInOrder(from + 2 * i));
  };
  const char* from_a = static_cast<const char*>(a);
  const char* from_b = static_cast<const char*>(b);
  DotSums sums;
  for (; count >= kBlock; count -= kBlock, from_a += 2 * kBlock, from_b += 2 * kBlock) {
    widen(from_a, x);
    widen(from_b, y);
    sums.Add(x, y, kBlock);
  }
  if (count > 0) {
    char rest[2 * kBlock] = {};
    __builtin_memcpy(rest, from_a, static_cast<size_t>(2 * count));
    widen(rest, x);
    __builtin_memcpy(rest, from_b, static_cast<size_t>(2 * count));
    widen(rest, y);
    sums.Add(x, y, count);
  }
  StoreDots(sums, out);
}

// Two kinds of elements for Blend: how many bytes one step takes, and what it does.
template <class T>
struct BlendInDouble {
  static constexpr size_t kStepBytes = 4 * kDoubles * sizeof(T);
  VDouble alpha, beta;
  BlendInDouble(double alpha_value, double beta_value)
      : alpha(Splat<VDouble>(alpha_value)), beta(Splat<VDouble>(beta_value)) {}

  HVDLITE_INLINE void Step(char* a, const char* b) const {
#pragma GCC unroll 4
    for (size_t at = 0; at < kStepBytes; at += kDoubles * sizeof(T)) {
      const VDouble x = WidenToDouble(reinterpret_cast<const T*>(a + at));
      const VDouble y = WidenToDouble(reinterpret_cast<const T*>(b + at));
      using Narrow = Vector<T, sizeof(T) * kDoubles>;
      Store(a + at, __builtin_convertvector(alpha * x + beta * y, Narrow));
    }
  }
};

template <class Half>
struct BlendInFloat {
  static constexpr size_t kStepBytes = Half::kQuadBytes;
  VFloat alpha, beta;
  BlendInFloat(double alpha_value, double beta_value)
      : alpha(Splat<VFloat>(static_cast<float>(alpha_value))),
        beta(Splat<VFloat>(static_cast<float>(beta_value))) {}

  HVDLITE_INLINE void Step(char* a, const char* b) const {
    const Quad<VFloat> x = Half::LoadQuad(a), y = Half::LoadQuad(b);
    Half::StoreQuad(a, {alpha * x.a + beta * y.a, alpha * x.b + beta * y.b, alpha * x.c + beta * y.c,
                        alpha * x.d + beta * y.d});
  }
};

template <class Kind, size_t kElementBytes>
void Blend(void* a, const void* b, int64_t count, double alpha, double beta) {
  const Kind kind(alpha, beta);
  char* to = static_cast<char*>(a);
  const char* from = static_cast<const char*>(b);
  size_t left = static_cast<size_t>(count) * kElementBytes;
  for (; left >= Kind::kStepBytes;
       left -= Kind::kStepBytes, to += Kind::kStepBytes, from += Kind::kStepBytes) {
    kind.Step(to, from);
  }
  if (left == 0) return;
  alignas(kVectorBytes) char x[Kind::kStepBytes] = {}, y[Kind::kStepBytes] = {};
  __builtin_memcpy(x, to, left);
  __builtin_memcpy(y, from, left);
  kind.Step(x, y);
  __builtin_memcpy(to, x, left);
}

}  // namespace
}  // namespace hvdlite::kernels::cpu
