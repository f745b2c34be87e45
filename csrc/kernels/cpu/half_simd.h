// 16-bit floats <-> float32, a quad (four float registers) at a time; the rounding of base/half.h.
//
// Two 16-bit elements share a 32-bit lane, so widening "low halves" and "high halves" apart needs
// shifts and masks only, and every load and store is a full vector: no shuffles. The order of
// elements inside a quad is therefore not that of memory; element-wise arithmetic does not care.
//
//        memory   | e0 e1 | e2 e3 | ...    low registers  e0 e2 ...    high registers  e1 e3 ...
//
// AVX512-BF16's vcvtne2ps2bf16 is not used: it takes subnormals for zero, so its bits differ from
// the other sets'.
#pragma once

#include "kernels/cpu/simd.h"

namespace hvdlite::kernels::cpu {
namespace {

// The rounded value in the upper 16 bits; the lower ones are rubbish.
//
// NaNs need no care here, unlike in FloatToBFloat16: every NaN in these kernels comes from a
// bfloat16, from the processor's default NaN or from a factor (which reduce.cc makes a default
// one), so its lower 16 bits are zero and nothing carries out of them. That saves a third of the
// work of rounding.
HVDLITE_INLINE VUint32 RoundToBFloat16(VFloat value) {
  const VUint32 bits = Bits<VUint32>(value);
  return bits + 0x7fffu + ((bits >> 16) & 1u);
}

struct BFloat16 {
  using Scalar = float;
  using V = VFloat;
  static constexpr size_t kQuadBytes = 2 * kVectorBytes;

  static HVDLITE_INLINE Quad<V> LoadQuad(const char* from) {
    const VUint32 x = Load<VUint32>(from), y = Load<VUint32>(from + kVectorBytes);
    return {Bits<V>(x << 16), Bits<V>(x & 0xffff0000u), Bits<V>(y << 16), Bits<V>(y & 0xffff0000u)};
  }
  static HVDLITE_INLINE void StoreQuad(char* to, const Quad<V>& q) {
    Store(to, (RoundToBFloat16(q.a) >> 16) | (RoundToBFloat16(q.b) & 0xffff0000u));
    Store(to + kVectorBytes, (RoundToBFloat16(q.c) >> 16) | (RoundToBFloat16(q.d) & 0xffff0000u));
  }
  static HVDLITE_INLINE VFloat LoadInOrder(const char* from) {
    return Bits<V>(Widen(Load<HalfOfWords>(from)) << 16);
  }
  // Takes any float32. A NaN stays a quiet one.
  static HVDLITE_INLINE void StoreInOrder(char* to, VFloat value) {
    const VUint32 quiet = Bits<VUint32>(value) | 0x400000u;
    const VUint32 bits = value != value ? quiet : RoundToBFloat16(value);
    Store(to, __builtin_convertvector(bits >> 16, HalfOfWords));
  }
};

#if defined(__F16C__) || defined(__aarch64__)

#if defined(__AVX512F__)
HVDLITE_INLINE VFloat WidenHalves(const char* from) {
  return Bits<VFloat>(_mm512_cvtph_ps(Load<__m256i>(from)));
}
HVDLITE_INLINE void NarrowHalves(char* to, VFloat value) {
  Store(to, _mm512_cvtps_ph(Bits<__m512>(value), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#elif defined(__aarch64__)
HVDLITE_INLINE VFloat WidenHalves(const char* from) {
  return Bits<VFloat>(vcvt_f32_f16(Load<float16x4_t>(from)));
}
HVDLITE_INLINE void NarrowHalves(char* to, VFloat value) {
  Store(to, vcvt_f16_f32(Bits<float32x4_t>(value)));
}
#else
HVDLITE_INLINE VFloat WidenHalves(const char* from) {
  return Bits<VFloat>(_mm256_cvtph_ps(Load<__m128i>(from)));
}
HVDLITE_INLINE void NarrowHalves(char* to, VFloat value) {
  Store(to, _mm256_cvtps_ph(Bits<__m256>(value), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#endif

struct Float16 {
  using Scalar = float;
  using V = VFloat;
  static constexpr size_t kQuadBytes = 2 * kVectorBytes;
  static constexpr size_t kPart = kVectorBytes / 2;

  static HVDLITE_INLINE Quad<V> LoadQuad(const char* from) {
    return {WidenHalves(from), WidenHalves(from + kPart), WidenHalves(from + 2 * kPart),
            WidenHalves(from + 3 * kPart)};
  }
  static HVDLITE_INLINE void StoreQuad(char* to, const Quad<V>& q) {
    NarrowHalves(to, q.a);
    NarrowHalves(to + kPart, q.b);
    NarrowHalves(to + 2 * kPart, q.c);
    NarrowHalves(to + 3 * kPart, q.d);
  }
  static HVDLITE_INLINE VFloat LoadInOrder(const char* from) { return WidenHalves(from); }
  static HVDLITE_INLINE void StoreInOrder(char* to, VFloat value) { NarrowHalves(to, value); }
};

#else  // no conversion instructions: integer arithmetic on 32-bit lanes

// Comparisons use signed lanes, because SSE2 has no others. Without the sign bit the result is the
// same.
using VInt32 = Vector<int32_t>;

// `half` in the lower 16 bits of each lane, the upper ones zero.
HVDLITE_INLINE VFloat WidenHalf(VUint32 half) {
  const VUint32 sign = (half & 0x8000u) << 16;
  const VUint32 magnitude = (half & 0x7fffu) << 13;
  const VUint32 normal = magnitude + (112u << 23);
  // Subnormals: puts the mantissa under the exponent of 2^-14, then subtracts 2^-14, which is
  // exact.
  const VFloat subnormal = Bits<VFloat>(magnitude + (113u << 23)) - 0x1p-14f;
  const VUint32 special = magnitude | 0x7f800000u;
  const VInt32 m = Bits<VInt32>(magnitude);
  VUint32 bits = m < (1 << 23) ? Bits<VUint32>(subnormal) : normal;
  bits = m >= (31 << 23) ? special : bits;
  bits |= Bits<VUint32>(m > (31 << 23)) & 0x400000u;
  return Bits<VFloat>(bits | sign);
}

HVDLITE_INLINE VUint32 NarrowHalf(VFloat value) {
  const VUint32 all = Bits<VUint32>(value);
  const VUint32 magnitude = all & 0x7fffffffu;
  const VUint32 normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Subnormals: adding 1/2 moves the mantissa to its place in a half, and the adder rounds.
  const VUint32 subnormal = Bits<VUint32>(Bits<VFloat>(magnitude) + 0.5f) - 0x3f000000u;
  const VUint32 not_a_number = ((magnitude >> 13) & 0x3ffu) | 0x7e00u;
  const VInt32 m = Bits<VInt32>(magnitude);
  VUint32 bits = m < 0x38800000 ? subnormal : normal;       // below 2^-14
  bits = m >= 0x47800000 ? Splat<VUint32>(0x7c00u) : bits;  // 65536 and more
  bits = m > 0x7f800000 ? not_a_number : bits;
  return bits | ((all >> 16) & 0x8000u);
}

struct Float16 {
  using Scalar = float;
  using V = VFloat;
  static constexpr size_t kQuadBytes = 2 * kVectorBytes;

  static HVDLITE_INLINE Quad<V> LoadQuad(const char* from) {
    const VUint32 x = Load<VUint32>(from), y = Load<VUint32>(from + kVectorBytes);
    return {WidenHalf(x & 0xffffu), WidenHalf(x >> 16), WidenHalf(y & 0xffffu), WidenHalf(y >> 16)};
  }
  static HVDLITE_INLINE void StoreQuad(char* to, const Quad<V>& q) {
    Store(to, NarrowHalf(q.a) | (NarrowHalf(q.b) << 16));
    Store(to + kVectorBytes, NarrowHalf(q.c) | (NarrowHalf(q.d) << 16));
  }
  static HVDLITE_INLINE VFloat LoadInOrder(const char* from) {
    return WidenHalf(Widen(Load<HalfOfWords>(from)));
  }
  static HVDLITE_INLINE void StoreInOrder(char* to, VFloat value) {
    Store(to, __builtin_convertvector(NarrowHalf(value), HalfOfWords));
  }
};

#endif

}  // namespace
}  // namespace hvdlite::kernels::cpu
