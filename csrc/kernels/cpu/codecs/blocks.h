// Blocks: what the kernels of all codecs share. Include only from table_<isa>.cc.
//
// A codec is a type with
//   kBlock                         elements of a block
//   kHasScale                      whether a float32 stands before the codes
//   Codec(double parameter)
//   planes()                       codes in a byte: 1, 2, 4 or 8
//   Scale(block, count)            of a block, NaN if it is not finite. Elements from `count` on
//                                  are zeros
//   Encode(block, scale, draws, codes, put)   a block of kBlock elements
//   Decode(codes, scale, put)                 the same
//
// put(i, values) gets what the codes of the elements from i on decode to, a vector at a time.
// Encode calls it as well, unless the block is not finite: so what is lost of a block costs no
// pass of its own.
//
// Byte j has the codes of the elements j, j + stride, j + 2 stride ..., where stride is the number
// of bytes. So packing codes takes no shuffle, and the bytes do not depend on the width of vectors.
// In a short block the stride is shorter. Its elements are moved to where they are in a full one.
#pragma once

#include "kernels/cpu/simd.h"
#include "kernels/cpu/table.h"

namespace hvdlite::kernels::cpu::codecs {
namespace {

constexpr int kFloats = kVectorBytes / sizeof(float);
// Partial sums of a block, the same number on every instruction set.
constexpr int kSums = 32;
// A scale below it has no reciprocal that is finite, so the block is encoded as zeros.
constexpr float kLeastScale = 1e-36F;
constexpr uint32_t kInfinityBits = 0x7F800000;
constexpr uint32_t kNanBits = 0x7FC00000;
constexpr uint32_t kMagnitude = 0x7FFFFFFF;
constexpr uint32_t kSignBit = 0x80000000;

HVDLITE_INLINE float NanFloat() {
  return Bits<float>(kNanBits);
}

// One byte of each lane, and back. GCC 12 builds them from pieces unless told which instruction to
// use.
using FewBytes = Vector<uint8_t, kVectorBytes / 4>;
#if defined(__AVX512F__)
HVDLITE_INLINE FewBytes ToBytes(VUint32 v) {
  return Bits<FewBytes>(_mm512_cvtepi32_epi8(Bits<__m512i>(v)));
}
HVDLITE_INLINE VUint32 FromBytes(const uint8_t* from) {
  return Bits<VUint32>(_mm512_cvtepu8_epi32(Load<__m128i>(from)));
}
#elif defined(__AVX2__)
HVDLITE_INLINE FewBytes ToBytes(VUint32 v) {
  const __m256i low = _mm256_set1_epi32(0x0C080400);
  const __m256i bytes = _mm256_shuffle_epi8(Bits<__m256i>(v), low);
  const __m256i both =
      _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 0, 0, 0, 0, 0, 0));
  return Bits<FewBytes>(_mm_cvtsi128_si64(_mm256_castsi256_si128(both)));
}
HVDLITE_INLINE VUint32 FromBytes(const uint8_t* from) {
  return Bits<VUint32>(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(Load<int64_t>(from))));
}
#else
HVDLITE_INLINE FewBytes ToBytes(VUint32 v) {
  return __builtin_convertvector(v, FewBytes);
}
HVDLITE_INLINE VUint32 FromBytes(const uint8_t* from) {
  return __builtin_convertvector(Load<FewBytes>(from), VUint32);
}
#endif

using VInt32 = Vector<int32_t>;

HVDLITE_INLINE VFloat ToFloat(VUint32 v) {
  return __builtin_convertvector(Bits<VInt32>(v), VFloat);
}
// The nearest integer, ties to even, of a number below 2^22 in magnitude.
HVDLITE_INLINE VUint32 Nearest(VFloat v) {
  const VFloat shifted = v + Splat<VFloat>(12582912.0F);  // 1.5 * 2^23
  return Bits<VUint32>(shifted) - 0x4B400000u;
}
HVDLITE_INLINE VUint32 MagnitudeBits(VFloat v) {
  return Bits<VUint32>(v) & kMagnitude;
}
HVDLITE_INLINE VFloat Magnitude(VFloat v) {
  return Bits<VFloat>(MagnitudeBits(v));
}
HVDLITE_INLINE float Reciprocal(float scale) {
  return scale == 0 ? 0 : 1 / scale;
}

// The greatest magnitude; NaN if an element is not finite.
template <int kBlock>
HVDLITE_INLINE float Greatest(const float* block) {
  VInt32 greatest[4] = {};
  for (std::ptrdiff_t i = 0; i < kBlock; i += std::ptrdiff_t{4} * kFloats) {
    for (std::ptrdiff_t r = 0; r < 4; ++r) {
      const VInt32 bits = Bits<VInt32>(MagnitudeBits(Load<VFloat>(block + i + r * kFloats)));
      greatest[r] = greatest[r] > bits ? greatest[r] : bits;
    }
  }
  for (int r = 1; r < 4; ++r) greatest[0] = greatest[0] > greatest[r] ? greatest[0] : greatest[r];
  int32_t lanes[kFloats];
  __builtin_memcpy(lanes, greatest, sizeof(lanes));
  for (int width = kFloats / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i)
      lanes[i] = lanes[i] > lanes[i + width] ? lanes[i] : lanes[i + width];
  }
  const auto most = static_cast<uint32_t>(lanes[0]);
  return most >= kInfinityBits ? NanFloat() : Bits<float>(most);
}

// The sum of term(element), in kSums parts that are added as a tree; so the order is the same on
// every instruction set.
template <int kBlock, class Term>
HVDLITE_INLINE float SumOf(const float* block, Term term) {
  constexpr int kVectors = kSums / kFloats;
  VFloat sums[kVectors] = {};
  for (std::ptrdiff_t i = 0; i < kBlock; i += kSums) {
#pragma GCC unroll 8
    for (std::ptrdiff_t r = 0; r < kVectors; ++r)
      sums[r] += term(Load<VFloat>(block + i + r * kFloats));
  }
  float parts[kSums];
  __builtin_memcpy(parts, sums, sizeof(parts));
  for (int width = kSums / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) parts[i] += parts[i + width];
  }
  return parts[0];
}

// Random numbers of a block, by place.
class Draws {
 public:
  // The rounds of SplitMix64, so that blocks and keys that differ in one bit have nothing in
  // common.
  Draws(uint64_t key, uint64_t block) {
    uint64_t x = key + (block + 1) * 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    x ^= x >> 31;
    high_ = static_cast<uint32_t>(x >> 32);
    for (int lane = 0; lane < kFloats; ++lane)
      lanes_[lane] = static_cast<uint32_t>(lane) * kSpread + static_cast<uint32_t>(x);
  }

  // Evenly distributed multiples of 2^-24 in [0, 1) for the elements from `place` on.
  HVDLITE_INLINE VFloat At(int place) const {
    VUint32 x = lanes_ + static_cast<uint32_t>(place) * kSpread;
    x = (x ^ (x >> 16)) * 0x7FEB352Du;
    x = ((x ^ (x >> 15)) + high_) * 0x846CA68Bu;
    x ^= x >> 16;
    return ToFloat(x >> 8) * 0x1p-24F;
  }

 private:
  static constexpr uint32_t kSpread = 0x9E3779B1;
  VUint32 lanes_;
  uint32_t high_;
};

// Packs the codes of a block: code_at(i) has those of the elements from i on.
template <int kBlock, int kPlanes, class CodeAt>
HVDLITE_INLINE void Pack(uint8_t* bytes, CodeAt code_at) {
  constexpr int kStride = kBlock / kPlanes;
  for (int j = 0; j < kStride; j += kFloats) {
    VUint32 packed = code_at(j);
#pragma GCC unroll 8
    for (int plane = 1; plane < kPlanes; ++plane)
      packed |= code_at(plane * kStride + j) << static_cast<uint32_t>(plane * (8 / kPlanes));
    Store(bytes + j, ToBytes(packed));
  }
}
// take(i, codes): the codes of the elements from i on. Higher bits are not cleared.
template <int kBlock, int kPlanes, class Take>
HVDLITE_INLINE void Unpack(const uint8_t* bytes, Take take) {
  constexpr int kStride = kBlock / kPlanes;
  for (int j = 0; j < kStride; j += kFloats) {
    const VUint32 packed = FromBytes(bytes + j);
#pragma GCC unroll 8
    for (int plane = 0; plane < kPlanes; ++plane)
      take(plane * kStride + j, packed >> static_cast<uint32_t>(plane * (8 / kPlanes)));
  }
}

// kBlock floats between two passes over a block: they stay in the first cache.
template <int kBlock>
struct alignas(64) Buffer {
  float at[kBlock];
};

// What is encoded of a whole block; `into` is memory that may be used.
template <int kBlock>
HVDLITE_INLINE const float* Sources(const EncodeArgs& args, int64_t at, float* into) {
  const float* const input = args.input + at;
  if (args.residual == nullptr && args.scale == 1) return input;
  const VFloat scale = Splat<VFloat>(args.scale);
  for (int i = 0; i < kBlock; i += kFloats) {
    VFloat value = Load<VFloat>(input + i) * scale;
    if (args.residual != nullptr) value += Load<VFloat>(args.residual + at + i);
    Store(into + i, value);
  }
  return into;
}

// Where element i of a short block lies in a full one.
template <class C>
HVDLITE_INLINE int PlaceOf(const C& codec, int count, int i) {
  const int planes = codec.planes();
  const int stride = (count + planes - 1) / planes;
  return i / stride * (C::kBlock / planes) + i % stride;
}

template <class C>
int64_t BlockBytes(double parameter, int count) {
  const int planes = C(parameter).planes();
  return (C::kHasScale ? int64_t{sizeof(float)} : 0) + (count + planes - 1) / planes;
}

// What Encode() and Decode() may put where.
struct PutNowhere {
  HVDLITE_INLINE void operator()(int, VFloat) const {}
};
struct PutInto {
  float* values;
  HVDLITE_INLINE void operator()(int i, VFloat decoded) const { Store(values + i, decoded); }
};
struct AddTo {
  float* values;
  HVDLITE_INLINE void operator()(int i, VFloat decoded) const {
    Store(values + i, Load<VFloat>(values + i) + decoded);
  }
};
struct PutLost {
  const float* block;
  float* lost;
  HVDLITE_INLINE void operator()(int i, VFloat decoded) const {
    Store(lost + i, Load<VFloat>(block + i) - decoded);
  }
};

// Returns whether the block is finite.
template <class C, class Put>
HVDLITE_INLINE bool EncodeBlock(const C& codec, const float* block, int count, const Draws& draws,
                                uint8_t* to, const Put& put) {
  constexpr int kHead = C::kHasScale ? sizeof(float) : 0;
  const float scale = codec.Scale(block, count);
  if (C::kHasScale) __builtin_memcpy(to, &scale, sizeof(scale));
  const int planes = codec.planes();
  const auto bytes = static_cast<size_t>((count + planes - 1) / planes);
  if (C::kHasScale && scale != scale) {
    __builtin_memset(to + kHead, 0, bytes);
  } else if (count == C::kBlock) {
    codec.Encode(block, scale, draws, to + kHead, put);
  } else {
    uint8_t codes[C::kBlock];
    codec.Encode(block, scale, draws, codes, put);
    __builtin_memcpy(to + kHead, codes, bytes);
  }
  return scale == scale;
}

template <class C, bool kKeeps>
HVDLITE_INLINE void EncodeAll(const EncodeArgs& args) {
  const C codec(args.parameter);
  const int64_t full_bytes = BlockBytes<C>(args.parameter, C::kBlock);
  uint8_t* to = args.encoded;
  uint64_t number = args.block;
  Buffer<C::kBlock> buffer;
  int64_t at = 0;
  for (; at + C::kBlock <= args.count; at += C::kBlock, to += full_bytes, ++number) {
    const float* const block = Sources<C::kBlock>(args, at, buffer.at);
    const Draws draws(args.key, number);
    if constexpr (kKeeps) {
      EncodeBlock(codec, block, C::kBlock, draws, to, PutLost{block, args.lost + at});
    } else {
      EncodeBlock(codec, block, C::kBlock, draws, to, PutNowhere{});
    }
  }
  const int left = static_cast<int>(args.count - at);
  if (left == 0) return;
  __builtin_memset(buffer.at, 0, sizeof(buffer.at));
  for (int i = 0; i < left; ++i) {
    float value = args.input[at + i] * args.scale;
    if (args.residual != nullptr) value += args.residual[at + i];
    buffer.at[PlaceOf(codec, left, i)] = value;
  }
  const bool finite = EncodeBlock(codec, buffer.at, left, Draws(args.key, number), to,
                                  PutLost{buffer.at, buffer.at});
  if (!kKeeps || !finite) return;
  for (int i = 0; i < left; ++i) args.lost[at + i] = buffer.at[PlaceOf(codec, left, i)];
}

template <class C>
void EncodeBlocks(const EncodeArgs& args) {
  args.lost != nullptr ? EncodeAll<C, true>(args) : EncodeAll<C, false>(args);
}

template <class C>
void DecodeBlocks(const DecodeArgs& args) {
  constexpr int kHead = C::kHasScale ? sizeof(float) : 0;
  const C codec(args.parameter);
  const int64_t full_bytes = BlockBytes<C>(args.parameter, C::kBlock);
  const uint8_t* from = args.encoded;
  Buffer<C::kBlock> buffer;
  const auto scale_of = [](const uint8_t* block) __attribute__((always_inline)) {
    float scale = 0;
    if (C::kHasScale) __builtin_memcpy(&scale, block, sizeof(scale));
    return scale;
  };
  int64_t at = 0;
  for (; at + C::kBlock <= args.count; at += C::kBlock, from += full_bytes) {
    float* const values = args.values + at;
    if (args.add) {
      codec.Decode(from + kHead, scale_of(from), AddTo{values});
    } else {
      codec.Decode(from + kHead, scale_of(from), PutInto{values});
    }
  }
  const int left = static_cast<int>(args.count - at);
  if (left == 0) return;
  uint8_t codes[C::kBlock] = {};
  const int planes = codec.planes();
  __builtin_memcpy(codes, from + kHead, static_cast<size_t>((left + planes - 1) / planes));
  codec.Decode(codes, scale_of(from), PutInto{buffer.at});
  for (int i = 0; i < left; ++i) {
    const float value = buffer.at[PlaceOf(codec, left, i)];
    args.values[at + i] = args.add ? args.values[at + i] + value : value;
  }
}

template <class C>
constexpr KernelTable::CodecKernel KernelOf() {
  return {C::kBlock, &BlockBytes<C>, &EncodeBlocks<C>, &DecodeBlocks<C>};
}

}  // namespace
}  // namespace hvdlite::kernels::cpu::codecs
