// Vectors of kVectorBytes, in the compilers' portable vector language (GCC and clang), and how to move them.
//
// Include only from table_<isa>.cc, which defines HVDLITE_VECTOR_BYTES first. Everything here has internal
// linkage, and none of these headers may call an inline function with external linkage (std:: included): the
// linker keeps one copy of such a function, perhaps the AVX-512 one, and hands it to a CPU that cannot run
// it.
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

// Four registers of accumulators: enough independent work to hide latencies and the overhead of the loop.
template <class V>
struct Quad {
  V a, b, c, d;
};

}  // namespace
}  // namespace hvdlite::kernels::cpu
