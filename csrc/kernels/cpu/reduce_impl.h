// The reduction: one loop for every element type, combination and number of sources.
//
//   for each quad of vectors (256 bytes with AVX-512):
//     four accumulators <- sources[0]; combine with sources[1], sources[2], ...;
//     finish, round, store (twice)
//
// Each source is read once and each destination written once, whatever n is, and no intermediate
// sum leaves the registers: so 16-bit types round once and the loop runs at the speed of memory.
// Include only from table_<isa>.cc.
#pragma once

#include "kernels/cpu/half_simd.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/table.h"

namespace hvdlite::kernels::cpu {
namespace {

// Element types: how a quad is loaded and stored. (BFloat16 and Float16 are in half_simd.h.)
template <class T>
struct Plain {
  using Scalar = T;
  using V = Vector<T>;
  static constexpr size_t kQuadBytes = 4 * kVectorBytes;

  static HVDLITE_INLINE Quad<V> LoadQuad(const char* from) {
    return {Load<V>(from), Load<V>(from + kVectorBytes), Load<V>(from + 2 * kVectorBytes),
            Load<V>(from + 3 * kVectorBytes)};
  }
  static HVDLITE_INLINE void StoreQuad(char* to, const Quad<V>& q) {
    Store(to, q.a);
    Store(to + kVectorBytes, q.b);
    Store(to + 2 * kVectorBytes, q.c);
    Store(to + 3 * kVectorBytes, q.d);
  }
};

// Any byte but zero counts as true; what is stored is 0 or 1.
struct Bool : Plain<uint8_t> {
  static HVDLITE_INLINE V Normal(V v) { return Bits<V>(v != 0) & 1; }
  static HVDLITE_INLINE void StoreQuad(char* to, const Quad<V>& q) {
    Plain<uint8_t>::StoreQuad(to, {Normal(q.a), Normal(q.b), Normal(q.c), Normal(q.d)});
  }
};

// 16-bit floats that are reduced to float32.
template <class Half>
struct Widened {
  using Scalar = float;
  using V = VFloat;
  static constexpr size_t kQuadBytes = 2 * kVectorBytes;
  static constexpr size_t kStoredBytes = 4 * kVectorBytes;

  static HVDLITE_INLINE Quad<V> LoadQuad(const char* from) {
    constexpr size_t kPart = kVectorBytes / 2;
    return {Half::LoadInOrder(from), Half::LoadInOrder(from + kPart),
            Half::LoadInOrder(from + 2 * kPart), Half::LoadInOrder(from + 3 * kPart)};
  }
  static HVDLITE_INLINE void StoreQuad(char* to, const Quad<V>& q) {
    Plain<float>::StoreQuad(to, q);
  }
};

// float32 that is rounded to 16 bits.
template <class Half>
struct Narrowed : Plain<float> {
  static constexpr size_t kStoredBytes = 2 * kVectorBytes;

  static HVDLITE_INLINE void StoreQuad(char* to, const Quad<V>& q) {
    constexpr size_t kPart = kVectorBytes / 2;
    Half::StoreInOrder(to, q.a);
    Half::StoreInOrder(to + kPart, q.b);
    Half::StoreInOrder(to + 2 * kPart, q.c);
    Half::StoreInOrder(to + 3 * kPart, q.d);
  }
};

// The bytes of a quad at the destination.
template <class Element>
constexpr size_t StoredBytes() {
  if constexpr (requires { Element::kStoredBytes; }) return Element::kStoredBytes;
  return Element::kQuadBytes;
}

// Combinations. Integers come as unsigned where wrapping is wanted.
struct Sum {
  template <class V>
  static HVDLITE_INLINE V Of(V a, V b) {
    return a + b;
  }
};
struct Product {
  template <class V>
  static HVDLITE_INLINE V Of(V a, V b) {
    return a * b;
  }
};
struct Or {
  template <class V>
  static HVDLITE_INLINE V Of(V a, V b) {
    return a | b;
  }
};
struct Min {
  template <class V>
  static HVDLITE_INLINE V Of(V a, V b) {
    return a < b ? a : b;
  }
};
struct Max {
  template <class V>
  static HVDLITE_INLINE V Of(V a, V b) {
    return a > b ? a : b;
  }
};
// For floats: with a NaN in b the comparison is false and gives b; a NaN in a is restored. So NaN
// wins, as in numpy.
template <class Order>
struct NanWins {
  template <class V>
  static HVDLITE_INLINE V Of(V a, V b) {
    const V chosen = Order::Of(a, b);
    return a != a ? a : chosen;
  }
};

template <class V>
HVDLITE_INLINE Quad<V> Scaled(const Quad<V>& q, V factor) {
  return {q.a * factor, q.b * factor, q.c * factor, q.d * factor};
}

template <class Element, class Op, Scaling kScaling>
struct Reduction {
  using V = typename Element::V;
  using Scalar = typename Element::Scalar;
  V prescale, divisor, postscale;

  explicit HVDLITE_INLINE Reduction(const ReduceArgs& args)
      : prescale(Splat<V>(static_cast<Scalar>(args.prescale))),
        divisor(Splat<V>(static_cast<Scalar>(args.divisor))),
        postscale(Splat<V>(static_cast<Scalar>(args.postscale))) {}

  HVDLITE_INLINE Quad<V> Begin(const char* from) const {
    const Quad<V> q = Element::LoadQuad(from);
    if constexpr (kScaling != Scaling::kAll) return q;
    return Scaled(q, prescale);
  }
  HVDLITE_INLINE void Add(Quad<V>& sum, const char* from) const {
    Quad<V> q = Element::LoadQuad(from);
    if constexpr (kScaling == Scaling::kAll) q = Scaled(q, prescale);
    sum = {Op::Of(sum.a, q.a), Op::Of(sum.b, q.b), Op::Of(sum.c, q.c), Op::Of(sum.d, q.d)};
  }
  HVDLITE_INLINE Quad<V> Finish(const Quad<V>& q) const {
    if constexpr (kScaling == Scaling::kNone) return q;
    if constexpr (kScaling == Scaling::kFinal) return Scaled(q, postscale);
    return Scaled(Quad<V>{q.a / divisor, q.b / divisor, q.c / divisor, q.d / divisor}, postscale);
  }
};

// With three and more streams the processor's own prefetching falls behind the short steps in each
// of them. Prefetching a KiB ahead gains a fifth from the L2 cache and up to two thirds from memory
// (8 sources of bfloat16).
constexpr size_t kPrefetch = 1024;

template <class Element, class Op, Scaling kScaling>
void Reduce(const ReduceArgs& args) {
  const Reduction<Element, Op, kScaling> reduction(args);
  constexpr size_t kStep = Element::kQuadBytes;
  constexpr size_t kStored = StoredBytes<Element>();
  char* const destination = static_cast<char*>(args.destination);
  char* const second = static_cast<char*>(args.second);
  const void* const* const sources = args.sources;
  const char* const source0 = static_cast<const char*>(sources[0]);
  const int n = args.n;
  const size_t whole = args.bytes / kStep * kStep;

  // A quad is loaded from all sources before it is stored, so a destination may be one of the
  // sources.
  auto loop = [&](auto add_others) __attribute__((always_inline)) {
    for (size_t at = 0; at < whole; at += kStep) {
      auto sum = reduction.Begin(source0 + at);
      add_others(sum, at);
      const auto result = reduction.Finish(sum);
      const size_t to = at / kStep * kStored;
      Element::StoreQuad(destination + to, result);
      if (second != nullptr) Element::StoreQuad(second + to, result);
    }
  };
  if (n == 2) {
    const char* const source1 = static_cast<const char*>(sources[1]);
    loop([&](auto& sum, size_t at)
             __attribute__((always_inline)) { reduction.Add(sum, source1 + at); });
  } else {
    loop([&](auto& sum, size_t at) __attribute__((always_inline)) {
      for (int k = 1; k < n; ++k) {
        const char* const from = static_cast<const char*>(sources[k]) + at;
        for (size_t line = 0; line < kStep; line += 64) __builtin_prefetch(from + kPrefetch + line);
        reduction.Add(sum, from);
      }
    });
  }

  // The rest takes the same path through a padded quad, so the last elements get the same bits as
  // the others.
  const size_t left = args.bytes - whole;
  if (left == 0) return;
  alignas(kVectorBytes) char quad[kStep] = {};
  __builtin_memcpy(quad, source0 + whole, left);
  auto sum = reduction.Begin(quad);
  for (int k = 1; k < n; ++k) {
    __builtin_memcpy(quad, static_cast<const char*>(sources[k]) + whole, left);
    reduction.Add(sum, quad);
  }
  alignas(kVectorBytes) char result[kStored];
  Element::StoreQuad(result, reduction.Finish(sum));
  constexpr auto stored = [](size_t bytes) {
    return kStored >= kStep ? bytes * (kStored / kStep) : bytes / (kStep / kStored);
  };
  __builtin_memcpy(destination + stored(whole), result, stored(left));
  if (second != nullptr) __builtin_memcpy(second + stored(whole), result, stored(left));
}

}  // namespace
}  // namespace hvdlite::kernels::cpu
