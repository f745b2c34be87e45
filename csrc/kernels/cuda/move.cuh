// Moves a list of tensors, with up to two scaling steps (kernels/reduce.h) on the way.
#pragma once

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/parameters.h"

namespace hvdlite::kernels::cuda {

// The step applied to each element. Copy changes nothing.
template <class T>
struct Copy {
  using Stored = T;
  static constexpr bool kByVectors = true;
  explicit __device__ Copy(const MoveList&) {}
  __device__ T operator()(T value) const { return value; }
};

// Bool: any byte but 0 is true and becomes 1.
struct Normalise {
  using Stored = unsigned char;
  static constexpr bool kByVectors = true;
  explicit __device__ Normalise(const MoveList&) {}
  __device__ unsigned char operator()(unsigned char value) const { return value != 0; }
};

// Divides by one number, rounded as a division is.
template <class T>
class Divider {
 public:
  explicit __device__ Divider(T by) : by_(by) {}
  __device__ T operator()(T value) const { return value / by_; }

 private:
  T by_;
};

// A division takes longer than the memory. A product with the reciprocal is at most two steps of
// rounding away from the quotient; one correction by the exact remainder makes it the quotient or a
// neighbour, and then a second one rounds correctly (Markstein). That holds as long as no step
// overflows or becomes subnormal.
template <>
class Divider<float> {
 public:
  explicit __device__ Divider(float by) : by_(by), reciprocal_(1.0F / by) {
    const float size = fabsf(by);
    easy_ = size > 0x1p-40F && size < 0x1p40F;
  }
  __device__ float operator()(float value) const {
    const float product = value * reciprocal_;
    const float size = fabsf(product);
    if (easy_ && size > 0x1p-60F && size < 0x1p60F)
      return Corrected(value, Corrected(value, product));
    // Zeros are frequent, and their product has the quotient's sign.
    return easy_ && value == 0 ? product : value / by_;
  }

 private:
  __device__ float Corrected(float value, float quotient) const {
    return __fmaf_rn(__fmaf_rn(-quotient, by_, value), reciprocal_, quotient);
  }
  float by_, reciprocal_;
  bool easy_;
};

template <class Element>
struct ScaleFloat {
  using Stored = typename Element::Stored;
  using Computed = typename Element::Computed;
  static constexpr bool kByVectors = true;
  explicit __device__ ScaleFloat(const MoveList& list)
      : divide(list.divide != 0),
        first(static_cast<Computed>(list.first)),
        second(static_cast<Computed>(list.second)),
        divided(first) {}
  __device__ Stored operator()(Stored stored) const {
    const Computed value = Element::Widen(stored);
    return Element::Narrow((divide ? divided(value) : value * first) * second);
  }
  bool divide;
  Computed first, second;
  Divider<Computed> divided;
};

// The range of an integer type; kEnd is the first double above it.
template <class T>
struct Range {
  static constexpr bool kSigned = static_cast<T>(-1) < static_cast<T>(0);
  static constexpr T kHighest =
      kSigned ? static_cast<T>(~(1ull << (8 * sizeof(T) - 1))) : static_cast<T>(~0ull);
  static constexpr T kLowest = static_cast<T>(~kHighest);
  static constexpr double kEnd = static_cast<double>(kHighest / 2 + 1) * 2.0;
};

// Not by vectors: arithmetic in double takes longer than the memory, and sixteen at once would make
// a megabyte of code.
template <class T>
struct ScaleInteger {
  using Stored = T;
  static constexpr bool kByVectors = false;
  explicit __device__ ScaleInteger(const MoveList& list)
      : divide(list.divide != 0), first(list.first), second(list.second) {}
  static __device__ T Saturate(double value) {
    if (value >= Range<T>::kEnd) return Range<T>::kHighest;
    if (value <= static_cast<double>(Range<T>::kLowest)) return Range<T>::kLowest;
    return value == value ? static_cast<T>(value) : T{0};
  }
  __device__ T operator()(T value) const {
    // A factor of 1 is no step, because not all 64-bit integers are doubles.
    if (first != 1.0) {
      const double exact = static_cast<double>(value);
      value = Saturate(divide ? exact / first : exact * first);
    }
    return second != 1.0 ? Saturate(static_cast<double>(value) * second) : value;
  }
  bool divide;
  double first, second;
};

// Moves units 0 to count - 1, which lie at place(i), with all threads of the block. Each thread has
// several loads in flight before it stores; a single one would not keep the memory busy.
template <class Unit, class Place, class Apply>
__device__ void MoveUnits(const Unit* from, Unit* to, int count, const Place& place,
                          const Apply& apply) {
  constexpr int kUnderWay = 4;
  const int threads = static_cast<int>(blockDim.x);
  for (int first = static_cast<int>(threadIdx.x); first < count; first += kUnderWay * threads) {
    Unit units[kUnderWay] = {};
    for (int k = 0; k < kUnderWay; ++k) {
      if (first + k * threads < count) units[k] = from[place(first + k * threads)];
    }
    for (int k = 0; k < kUnderWay; ++k) {
      if (first + k * threads < count) to[place(first + k * threads)] = apply(units[k]);
    }
  }
}

// Moves 16 bytes at a time between the first and the last boundary, if both ends have their
// boundaries at the same elements. All other elements are moved one by one.
template <class Step>
__device__ void MovePiece(const Step& step, const typename Step::Stored* from,
                          typename Step::Stored* to, int count) {
  using Stored = typename Step::Stored;
  using Whole = Vector<Stored>;
  const int head = BeforeBoundary(to);
  int vectors = 0;
  if constexpr (Step::kByVectors) {
    if (head < count && BeforeBoundary(from) == head) vectors = (count - head) / Whole::kElements;
    MoveUnits(
        reinterpret_cast<const uint4*>(from + head), reinterpret_cast<uint4*>(to + head), vectors,
        [](int i) { return i; },
        [&step](uint4 raw) {
          Whole whole;
          whole.raw = raw;
          for (int i = 0; i < Whole::kElements; ++i) whole.at[i] = step(whole.at[i]);
          return whole.raw;
        });
  }
  const int inner = vectors * Whole::kElements;
  MoveUnits(
      from, to, count - inner, [head, inner](int i) { return i < head ? i : i + inner; }, step);
}

// Block b moves piece b of the list.
template <class Step>
__device__ void MoveOnePiece(const MoveList& list) {
  using Stored = typename Step::Stored;
  constexpr int kElements = kPieceBytes / sizeof(Stored);
  const int entry = EntryOf(list.first_piece, list.count, blockIdx.x);
  const MoveList::Entry& move = list.entries[entry];
  const long long begin = static_cast<long long>(blockIdx.x - list.first_piece[entry]) * kElements;
  const long long left = move.elements - begin;
  MovePiece(Step(list), static_cast<const Stored*>(move.from) + begin,
            static_cast<Stored*>(move.to) + begin,
            left < kElements ? static_cast<int>(left) : kElements);
}

}  // namespace hvdlite::kernels::cuda
