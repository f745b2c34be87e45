// Vectors of kVectorBytes, in the compilers' portable vector language (GCC and clang), and how to
// move them.
//
// Include only from table_<isa>.cc, which defines HVDLITE_VECTOR_BYTES first. Everything here has
// internal linkage, and none of these headers may call an inline function with external linkage
// (std:: included): the linker keeps one copy of such a function, perhaps the AVX-512 one, and
// hands it to a CPU that cannot run it.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__F16C__)
// GCC 12 warns about its own headers (_mm512_undefined_ps is a variable initialised with itself).
#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define HVDLITE_INLINE __attribute__((always_inline)) inline

namespace hvdlite::kernels::cpu {
namespace {

constexpr size_t kVectorBytes = HVDLITE_VECTOR_BYTES;

template <class T, size_t Bytes = kVectorBytes>
struct VectorOf {
  typedef T Type __attribute__((vector_size(Bytes)));
};
template <class T, size_t Bytes = kVectorBytes>
using Vector = typename VectorOf<T, Bytes>::Type;

using VFloat = Vector<float>;
using VDouble = Vector<double>;
using VUint32 = Vector<uint32_t>;

// Any address will do: memcpy of a constant size is one unaligned move.
template <class V>
HVDLITE_INLINE V Load(const void* from) {
  V value;
  __builtin_memcpy(&value, from, sizeof(V));
  return value;
}
template <class V>
HVDLITE_INLINE void Store(void* to, V value) {
  __builtin_memcpy(to, &value, sizeof(V));
}

// The same bits seen as another type.
template <class To, class From>
HVDLITE_INLINE To Bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}

// All lanes `value`. (Minus zero survives s - 0, not s + 0.)
template <class V, class Scalar>
HVDLITE_INLINE V Splat(Scalar value) {
  return value - V{};
}

// Conversions between a half-filled vector and a full one of elements twice as wide. GCC 12 builds
// them from 16-byte pieces unless told which instruction to use.
using HalfOfFloats = Vector<float, kVectorBytes / 2>;
using HalfOfWords = Vector<uint16_t, kVectorBytes / 2>;

#if defined(__AVX512F__)
HVDLITE_INLINE VUint32 Widen(HalfOfWords v) {
  return Bits<VUint32>(_mm512_cvtepu16_epi32(Bits<__m256i>(v)));
}
HVDLITE_INLINE VDouble Widen(HalfOfFloats v) {
  return Bits<VDouble>(_mm512_cvtps_pd(Bits<__m256>(v)));
}
HVDLITE_INLINE HalfOfFloats Narrow(VDouble v) {
  return Bits<HalfOfFloats>(_mm512_cvtpd_ps(Bits<__m512d>(v)));
}
#elif defined(__AVX2__)
HVDLITE_INLINE VUint32 Widen(HalfOfWords v) {
  return Bits<VUint32>(_mm256_cvtepu16_epi32(Bits<__m128i>(v)));
}
HVDLITE_INLINE VDouble Widen(HalfOfFloats v) {
  return Bits<VDouble>(_mm256_cvtps_pd(Bits<__m128>(v)));
}
HVDLITE_INLINE HalfOfFloats Narrow(VDouble v) {
  return Bits<HalfOfFloats>(_mm256_cvtpd_ps(Bits<__m256d>(v)));
}
#else
HVDLITE_INLINE VUint32 Widen(HalfOfWords v) {
  return __builtin_convertvector(v, VUint32);
}
HVDLITE_INLINE VDouble Widen(HalfOfFloats v) {
  return __builtin_convertvector(v, VDouble);
}
HVDLITE_INLINE HalfOfFloats Narrow(VDouble v) {
  return __builtin_convertvector(v, HalfOfFloats);
}
#endif

// Four registers of accumulators: enough independent work to hide latencies and the overhead of the
// loop.
template <class V>
struct Quad {
  V a, b, c, d;
};

}  // namespace
}  // namespace hvdlite::kernels::cpu
