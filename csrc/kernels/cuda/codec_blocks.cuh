// Blocks of encoded tensors (kernels/codec.h): what the codecs of codecs.cuh share. The same bytes
// as csrc/kernels/cpu/codecs/blocks.h makes, which says where the codes of a block lie.
//
// A warp encodes a block by itself. It stages the block in shared memory, each element where it is
// in a full block, and works in steps with a barrier behind each. A sum has the 32 parts of the
// processor's, added as the same tree; the greatest element does not depend on an order. A product
// and the sum that it goes into are rounded one by one (compile.py: --fmad=false), and so are
// divisions and square roots. So all GPUs and all processors give the same bytes.
//
// A codec is a type with
//   kBlock                  elements of a block
//   kHasScale               whether a float32 stands before the codes
//   kDraws                  whether it rounds at random
//   Codec(double parameter)
//   planes()                codes in a byte: 1, 2, 4 or 8
//   Scale(warp, room, count)   of a staged block, NaN if it is not finite
//   Factor(scale)           what the code of an element needs of the scale
//   Code(value, factor, draw)
//   Value(code, scale)      of a code whose higher bits need not be 0
#pragma once

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/parameters.h"

namespace hvdlite::kernels::cuda {

constexpr int kWarp = 32;
constexpr int kParts = 32;             // of a sum, as on the processor
constexpr float kLeastScale = 1e-36F;  // a smaller one has no finite reciprocal
constexpr unsigned kInfinityBits = 0x7F800000u;
constexpr unsigned kNanBits = 0x7FC00000u;
constexpr unsigned kMagnitudeBits = 0x7FFFFFFFu;
constexpr unsigned kSignBit = 0x80000000u;

// The threads that work on one block. Steps end with a barrier, because the threads of a warp need
// not run together.
struct Warp {
  __device__ Warp()
      : number(threadIdx.x / kWarp),
        count(blockDim.x < kWarp ? 1 : blockDim.x / kWarp),
        lane(static_cast<int>(threadIdx.x % kWarp)),
        lanes(static_cast<int>(blockDim.x < kWarp ? blockDim.x : kWarp)) {}
  // Calls body(i) for all i from 0 to end - 1, each on one lane.
  template <class Body>
  __device__ void Each(int end, const Body& body) const {
    for (int i = lane; i < end; i += lanes) body(i);
  }
  // The same, and then all lanes see what it has written.
  template <class Body>
  __device__ void Step(int end, const Body& body) const {
    Each(end, body);
    __syncwarp();
  }
  unsigned number, count;
  int lane, lanes;
};

// The shared memory of a warp.
template <int kBlock>
struct Room {
  float values[kBlock];
  float sums[kParts];
  unsigned greatest[kParts];
};

inline __device__ float ValueOf(const Summands& what, long long i) {
  const float value = what.input[i] * what.scale;
  return what.residual == nullptr ? value : value + what.residual[i];
}
inline __device__ unsigned MagnitudeOf(float value) {
  return __float_as_uint(value) & kMagnitudeBits;
}
inline __device__ float Magnitude(float value) {
  return __uint_as_float(MagnitudeOf(value));
}
inline __device__ float Reciprocal(float scale) {
  return scale == 0 ? 0 : 1 / scale;
}
// The nearest integer, ties to even, of a number below 2^22 in magnitude.
inline __device__ unsigned Nearest(float value) {
  return __float_as_uint(value + 12582912.0F) - 0x4B400000u;  // 1.5 * 2^23
}

// parts[0] after all have been combined as a tree.
template <class Part, class Combine>
__device__ Part Tree(const Warp& warp, Part* parts, const Combine& combine) {
  for (int width = kParts / 2; width > 0; width /= 2)
    warp.Step(width, [&](int i) { parts[i] = combine(parts[i], parts[i + width]); });
  return parts[0];
}

// The greatest magnitude; NaN if an element is not finite.
template <int kBlock>
__device__ float Greatest(const Warp& warp, Room<kBlock>& room) {
  warp.Step(kParts, [&](int part) {
    unsigned most = 0;
    for (int i = part; i < kBlock; i += kParts) {
      const unsigned bits = MagnitudeOf(room.values[i]);
      most = most > bits ? most : bits;
    }
    room.greatest[part] = most;
  });
  const unsigned most =
      Tree(warp, room.greatest, [](unsigned a, unsigned b) { return a > b ? a : b; });
  return __uint_as_float(most >= kInfinityBits ? kNanBits : most);
}

// The sum of term(element).
template <int kBlock, class Term>
__device__ float SumOf(const Warp& warp, Room<kBlock>& room, const Term& term) {
  warp.Step(kParts, [&](int part) {
    float sum = 0;
    for (int i = part; i < kBlock; i += kParts) sum += term(room.values[i]);
    room.sums[part] = sum;
  });
  return Tree(warp, room.sums, [](float a, float b) { return a + b; });
}

// Random numbers of a block, by place: those of the processor.
class Draws {
 public:
  __device__ Draws(unsigned long long key, unsigned long long block) {
    unsigned long long x = key + (block + 1) * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    x ^= x >> 31;
    high_ = static_cast<unsigned>(x >> 32);
    low_ = static_cast<unsigned>(x);
  }
  __device__ float At(int place) const {
    unsigned x = static_cast<unsigned>(place) * 0x9E3779B1u + low_;
    x = (x ^ (x >> 16)) * 0x7FEB352Du;
    x = ((x ^ (x >> 15)) + high_) * 0x846CA68Bu;
    x ^= x >> 16;
    return static_cast<float>(x >> 8) * 0x1p-24F;
  }

 private:
  unsigned low_, high_;
};

// Where a block of `count` elements has its codes.
template <class Codec>
struct Layout {
  __device__ Layout(const Codec& codec, int elements)
      : count(elements),
        planes(codec.planes()),
        stride((elements + planes - 1) / planes),
        full_stride(Codec::kBlock / planes) {}
  static constexpr int kHead = Codec::kHasScale ? 4 : 0;
  __device__ long long full_bytes() const { return kHead + full_stride; }
  // Calls body(element, its place in a full block, by how many bits its code is shifted) for the
  // elements whose codes are in byte j.
  template <class Body>
  __device__ void EachIn(int j, const Body& body) const {
    for (int plane = 0; plane < planes; ++plane) {
      const int element = plane * stride + j;
      if (element < count) body(element, plane * full_stride + j, plane * (8 / planes));
    }
  }

  const int count, planes, stride, full_stride;  // stride: bytes of codes
};

template <class Codec>
__device__ int CountOf(long long elements, long long block) {
  const long long left = elements - block * Codec::kBlock;
  return left < Codec::kBlock ? static_cast<int>(left) : Codec::kBlock;
}

// Calls body(number of the block in the entry, warp) for the blocks of piece blockIdx.x that are
// this warp's.
template <class Codec, class List, class Body>
__device__ void EachBlock(const List& list, const Body& body) {
  constexpr int kBlocks = kPieceBytes / static_cast<int>(sizeof(float)) / Codec::kBlock;
  static_assert(kBlocks * Codec::kBlock * static_cast<int>(sizeof(float)) == kPieceBytes,
                "a piece is whole blocks");
  const Warp warp;
  const int entry = EntryOf(list.first_piece, list.count, blockIdx.x);
  const long long first = static_cast<long long>(blockIdx.x - list.first_piece[entry]) * kBlocks;
  for (long long i = warp.number; i < kBlocks; i += warp.count) {
    if ((first + i) * Codec::kBlock < list.entries[entry].elements)
      body(list.entries[entry], first + i, warp);
  }
}

template <class Codec>
__device__ void EncodeBlock(const Codec& codec, const EncodeList::Entry& entry, long long block,
                            const Warp& warp, Room<Codec::kBlock>& room) {
  const Layout layout(codec, CountOf<Codec>(entry.elements, block));
  const long long at = block * Codec::kBlock;
  if (layout.count < Codec::kBlock) warp.Step(Codec::kBlock, [&](int i) { room.values[i] = 0; });
  warp.Step(layout.stride, [&](int j) {
    layout.EachIn(j,
                  [&](int i, int place, int) { room.values[place] = ValueOf(entry.what, at + i); });
  });
  const float scale = codec.Scale(warp, room, layout.count);
  const bool finite = scale == scale;
  unsigned char* const to = entry.encoded + block * layout.full_bytes();
  if (Codec::kHasScale) {
    // Of a NaN the bits differ from one processor to the next.
    const unsigned bits = finite ? __float_as_uint(scale) : kNanBits;
    warp.Each(4, [&](int i) { to[i] = static_cast<unsigned char>(bits >> (8 * i)); });
  }
  unsigned char* const codes = to + Layout<Codec>::kHead;
  const float factor = codec.Factor(scale);
  const Draws draws(entry.key, static_cast<unsigned long long>(entry.block + block));
  warp.Step(layout.stride, [&](int j) {
    unsigned packed = Codec::kHasScale ? 0 : 0xFF;
    if (finite) {
      packed = 0;
      for (int plane = 0; plane < layout.planes; ++plane) {
        const int place = plane * layout.full_stride + j;
        const float draw = Codec::kDraws ? draws.At(place) : 0;
        packed |= codec.Code(room.values[place], factor, draw) << (plane * (8 / layout.planes));
      }
    }
    codes[j] = static_cast<unsigned char>(packed);
  });
}

// An encoded block.
template <class Codec>
struct Coded {
  // `tensor`: the encoded tensor, which may begin at any address; null: there is none.
  __device__ Coded(const unsigned char* tensor, long long block, const Layout<Codec>& layout)
      : codes(tensor + block * layout.full_bytes() + Layout<Codec>::kHead), scale(0) {
    if (!Codec::kHasScale || tensor == nullptr) return;
    unsigned bits = 0;
    for (int i = 0; i < 4; ++i) bits |= static_cast<unsigned>(codes[i - 4]) << (8 * i);
    scale = __uint_as_float(bits);
  }
  // Of the element whose code is in byte j.
  __device__ float Value(const Codec& codec, int j, int shift) const {
    return codec.Value(static_cast<unsigned>(codes[j]) >> shift, scale);
  }
  const unsigned char* codes;
  float scale;
};

template <class Codec>
__device__ void DecodeBlock(const Codec& codec, const DecodeList::Entry& entry, bool add,
                            long long block, const Warp& warp) {
  const Layout layout(codec, CountOf<Codec>(entry.elements, block));
  const Coded<Codec> coded(entry.encoded, block, layout);
  float* const values = entry.values + block * Codec::kBlock;
  warp.Each(layout.stride, [&](int j) {
    layout.EachIn(j, [&](int i, int, int shift) {
      const float value = coded.Value(codec, j, shift);
      values[i] = add ? values[i] + value : value;
    });
  });
}

// See ToSettle in kernels/gpu_codec.h.
template <class Codec>
__device__ void SettleBlock(const Codec& codec, const SettleList::Entry& entry, long long block,
                            const Warp& warp) {
  const Layout layout(codec, CountOf<Codec>(entry.elements, block));
  const long long at = block * Codec::kBlock;
  const bool has_result = entry.result != nullptr, has_sent = entry.sent != nullptr;
  const Coded<Codec> result(entry.result, block, layout), sent(entry.sent, block, layout);
  const float first = has_result ? result.Value(codec, 0, 0) : entry.sum[at];
  const bool keeps = entry.residual != nullptr && first == first;
  warp.Each(layout.stride, [&](int j) {
    layout.EachIn(j, [&](int i, int, int shift) {
      const float value = has_result ? result.Value(codec, j, shift) : entry.sum[at + i];
      if (keeps) {
        const float decoded = has_sent ? sent.Value(codec, j, shift) : value;
        const float kept = entry.what.residual == nullptr ? 0 : entry.what.residual[at + i];
        entry.residual[at + i] = (entry.what.input[at + i] * entry.what.scale + kept) - decoded;
      }
      entry.output[at + i] = value;
    });
  });
}

template <class Codec>
__device__ void EncodePiece(const EncodeList& list) {
  __shared__ Room<Codec::kBlock> rooms[kThreads / kWarp];
  const Codec codec(list.parameter);
  EachBlock<Codec>(list, [&](const EncodeList::Entry& entry, long long block, const Warp& warp) {
    EncodeBlock(codec, entry, block, warp, rooms[warp.number]);
  });
}

template <class Codec>
__device__ void DecodePiece(const DecodeList& list) {
  const Codec codec(list.parameter);
  EachBlock<Codec>(list, [&](const DecodeList::Entry& entry, long long block, const Warp& warp) {
    DecodeBlock(codec, entry, list.add != 0, block, warp);
  });
}

template <class Codec>
__device__ void SettlePiece(const SettleList& list) {
  const Codec codec(list.parameter);
  EachBlock<Codec>(list, [&](const SettleList::Entry& entry, long long block, const Warp& warp) {
    SettleBlock(codec, entry, block, warp);
  });
}

// values[i] += what, which is not encoded.
inline __device__ void AddPiece(const AddList& list) {
  constexpr int kElements = kPieceBytes / static_cast<int>(sizeof(float));
  const int entry = EntryOf(list.first_piece, list.count, blockIdx.x);
  const AddList::Entry& add = list.entries[entry];
  const long long begin = static_cast<long long>(blockIdx.x - list.first_piece[entry]) * kElements;
  for (int i = static_cast<int>(threadIdx.x); i < kElements && begin + i < add.elements;
       i += static_cast<int>(blockDim.x))
    add.values[begin + i] += ValueOf(add.what, begin + i);
}

}  // namespace hvdlite::kernels::cuda
