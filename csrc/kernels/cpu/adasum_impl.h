// Adasum's two loops. Include only from table_<isa>.cc.
//
// Dot: element i is added to double sum number i % 16, and the sixteen sums are added as a tree;
// that order does not depend on the width of the vectors, so neither do the bits. Blend works in
// float32 for 16-bit types and in double for the others, and rounds to the type once.
#pragma once

#include "kernels/cpu/half_simd.h"
#include "kernels/cpu/simd.h"

namespace hvdlite::kernels::cpu {
namespace {

constexpr int kLanes = 16;
constexpr int kDoubles = kVectorBytes / sizeof(double);
constexpr int kRegisters = kLanes / kDoubles;  // per product

// kDoubles elements at any address as doubles, and back.
HVDLITE_INLINE VDouble LoadDoubles(const float* from) {
  return Widen(Load<HalfOfFloats>(from));
}
HVDLITE_INLINE VDouble LoadDoubles(const double* from) {
  return Load<VDouble>(from);
}
HVDLITE_INLINE void StoreDoubles(float* to, VDouble value) {
  Store(to, Narrow(value));
}
HVDLITE_INLINE void StoreDoubles(double* to, VDouble value) {
  Store(to, value);
}

// The sixteen elements of one step as doubles, in the order of memory.
struct Lanes {
  VDouble at[kRegisters];
};

template <class T>
struct PlainLanes {
  static constexpr size_t kElementBytes = sizeof(T);
  static HVDLITE_INLINE Lanes LoadLanes(const char* from) {
    Lanes lanes;
#pragma GCC unroll 8
    for (int r = 0; r < kRegisters; ++r)
      lanes.at[r] = LoadDoubles(reinterpret_cast<const T*>(from) + kDoubles * r);
    return lanes;
  }
};

template <class Half>
struct HalfLanes {
  static constexpr size_t kElementBytes = 2;
  static HVDLITE_INLINE Lanes LoadLanes(const char* from) {
    struct Parts {
      HalfOfFloats low, high;
    };
    Lanes lanes;
#pragma GCC unroll 4
    for (int r = 0; r < kRegisters; r += 2) {
      const Parts parts = Bits<Parts>(Half::LoadInOrder(from + size_t{2} * kDoubles * r));
      lanes.at[r] = Widen(parts.low);
      lanes.at[r + 1] = Widen(parts.high);
    }
    return lanes;
  }
};

struct DotSums {
  VDouble ab[kRegisters] = {}, aa[kRegisters] = {}, bb[kRegisters] = {};

  HVDLITE_INLINE void Add(const Lanes& x, const Lanes& y) {
#pragma GCC unroll 8
    for (int r = 0; r < kRegisters; ++r) {
      ab[r] += x.at[r] * y.at[r];
      aa[r] += x.at[r] * x.at[r];
      bb[r] += y.at[r] * y.at[r];
    }
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

template <class Elements>
void Dot(const void* a, const void* b, int64_t count, double out[3]) {
  constexpr size_t kStep = kLanes * Elements::kElementBytes;
  const char* from_a = static_cast<const char*>(a);
  const char* from_b = static_cast<const char*>(b);
  size_t left = static_cast<size_t>(count) * Elements::kElementBytes;
  DotSums sums;
  for (; left >= kStep; left -= kStep, from_a += kStep, from_b += kStep) {
    sums.Add(Elements::LoadLanes(from_a), Elements::LoadLanes(from_b));
  }
  if (left > 0) {
    char x[kStep] = {}, y[kStep] = {};
    __builtin_memcpy(x, from_a, left);
    __builtin_memcpy(y, from_b, left);
    sums.Add(Elements::LoadLanes(x), Elements::LoadLanes(y));
  }
  out[0] = TreeSum(sums.ab);
  out[1] = TreeSum(sums.aa);
  out[2] = TreeSum(sums.bb);
}

// Two kinds of elements for Blend: how many bytes one step takes, and what it does.
template <class T>
struct BlendInDouble {
  static constexpr size_t kStepBytes = sizeof(T) * 4 * kDoubles;
  VDouble alpha, beta;
  BlendInDouble(double alpha_value, double beta_value)
      : alpha(Splat<VDouble>(alpha_value)), beta(Splat<VDouble>(beta_value)) {}

  HVDLITE_INLINE void Step(char* a, const char* b) const {
    T* const to = reinterpret_cast<T*>(a);
    const T* const from = reinterpret_cast<const T*>(b);
#pragma GCC unroll 4
    for (int i = 0; i < 4 * kDoubles; i += kDoubles) {
      StoreDoubles(to + i, alpha * LoadDoubles(to + i) + beta * LoadDoubles(from + i));
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
    Half::StoreQuad(a, {alpha * x.a + beta * y.a, alpha * x.b + beta * y.b,
                        alpha * x.c + beta * y.c, alpha * x.d + beta * y.d});
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
