// Adasum's arithmetic (kernels/adasum.h) for a list of pairs: the sums of each piece, from those
// the sums of each pair, and the combination.
//
// The number of elements alone decides which thread adds which elements in which order. Alignment
// and device do not, so all ranks get the same bits.
#pragma once

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/parameters.h"

namespace hvdlite::kernels::cuda {

// Returns, to each thread, the sum of the values of the block's threads.
inline __device__ double BlockSum(double value) {
  __shared__ double warps[kThreads / 32];
  for (unsigned distance = 16; distance > 0; distance /= 2)
    value += __shfl_down_sync(0xffffffffu, value, distance);
  __syncthreads();  // the sum before this one may still be read
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  double sum = 0.0;
  for (unsigned warp = 0; warp < (blockDim.x + 31) / 32; ++warp) sum += warps[warp];
  return sum;
}

// Loads 16 bytes of elements from `from`. Only `count` elements exist; the others are zero.
template <class Stored>
__device__ Vector<Stored> LoadGroup(const Stored* from, int count, bool aligned) {
  Vector<Stored> group = {};
  if (aligned && count >= Vector<Stored>::kElements) {
    group.raw = *reinterpret_cast<const uint4*>(from);
  } else {
    for (int i = 0; i < Vector<Stored>::kElements; ++i) {
      if (i < count) group.at[i] = from[i];
    }
  }
  return group;
}

template <class Stored>
__device__ void StoreGroup(Stored* to, const Vector<Stored>& group, int count, bool aligned) {
  if (aligned && count >= Vector<Stored>::kElements) {
    *reinterpret_cast<uint4*>(to) = group.raw;
  } else {
    for (int i = 0; i < Vector<Stored>::kElements; ++i) {
      if (i < count) to[i] = group.at[i];
    }
  }
}

// The work of block b: piece b of the list.
template <class Stored>
struct PairPiece {
  explicit __device__ PairPiece(const PairList& list)
      : entry(EntryOf(list.first_piece, list.count, blockIdx.x)) {
    constexpr int kElements = kPieceBytes / sizeof(Stored);
    const PairList::Entry& pair = list.entries[entry];
    const long long begin =
        static_cast<long long>(blockIdx.x - list.first_piece[entry]) * kElements;
    const long long left = pair.elements - begin;
    a = static_cast<Stored*>(pair.a) + begin;
    b = static_cast<const Stored*>(pair.b) + begin;
    count = left < kElements ? static_cast<int>(left) : kElements;
    a_aligned = BeforeBoundary(a) == 0;
    b_aligned = BeforeBoundary(b) == 0;
  }
  // Calls body(first element, number of elements from there on) for this thread's groups.
  template <class Body>
  __device__ void EachGroup(const Body& body) const {
    constexpr int kGroup = Vector<Stored>::kElements;
    const int step = static_cast<int>(blockDim.x) * kGroup;
    for (int at = static_cast<int>(threadIdx.x) * kGroup; at < count; at += step)
      body(at, count - at);
  }

  int entry;
  Stored* a;
  const Stored* b;
  int count;
  bool a_aligned, b_aligned;
};

template <class Element>
__device__ void DotOnePiece(const PairList& list) {
  using Stored = typename Element::Stored;
  const PairPiece<Stored> piece(list);
  double ab = 0.0, aa = 0.0, bb = 0.0;
  piece.EachGroup([&](int at, int left) {
    const Vector<Stored> x = LoadGroup(piece.a + at, left, piece.a_aligned);
    const Vector<Stored> y = LoadGroup(piece.b + at, left, piece.b_aligned);
    for (int i = 0; i < Vector<Stored>::kElements; ++i) {
      const double a = Element::Widen(x.at[i]), b = Element::Widen(y.at[i]);
      ab += a * b;
      aa += a * a;
      bb += b * b;
    }
  });
  const double sums[3] = {BlockSum(ab), BlockSum(aa), BlockSum(bb)};
  if (threadIdx.x == 0) {
    for (int i = 0; i < 3; ++i) list.pieces[3 * static_cast<long long>(blockIdx.x) + i] = sums[i];
  }
}

// Block b adds up the pieces of pair b.
inline __device__ void SumOnePair(const PairList& list) {
  for (int i = 0; i < 3; ++i) {
    double sum = 0.0;
    for (unsigned piece = list.first_piece[blockIdx.x] + threadIdx.x;
         piece < list.first_piece[blockIdx.x + 1]; piece += blockDim.x) {
      sum += list.pieces[3 * static_cast<long long>(piece) + i];
    }
    sum = BlockSum(sum);
    if (threadIdx.x == 0) list.pairs[3 * blockIdx.x + i] = sum;
  }
}

inline __device__ double Coefficient(double ab, double square) {
  return square < 0x1p-511 ? 1.0 : 1.0 - ab / (2.0 * square);  // see kernels/adasum.cc
}

template <class Element>
__device__ void BlendOnePiece(const PairList& list) {
  using Stored = typename Element::Stored;
  using Blended = typename Element::Blended;
  const PairPiece<Stored> piece(list);
  const double* const sums = list.pairs + 3 * piece.entry;
  const Blended alpha = static_cast<Blended>(Coefficient(sums[0], sums[list.swapped ? 2 : 1]));
  const Blended beta = static_cast<Blended>(Coefficient(sums[0], sums[list.swapped ? 1 : 2]));
  piece.EachGroup([&](int at, int left) {
    Vector<Stored> x = LoadGroup(piece.a + at, left, piece.a_aligned);
    const Vector<Stored> y = LoadGroup(piece.b + at, left, piece.b_aligned);
    for (int i = 0; i < Vector<Stored>::kElements; ++i) {
      const Blended a = Element::Widen(x.at[i]), b = Element::Widen(y.at[i]);
      x.at[i] = Element::Narrow(alpha * a + beta * b);
    }
    StoreGroup(piece.a + at, x, left, piece.a_aligned);
  });
}

}  // namespace hvdlite::kernels::cuda
