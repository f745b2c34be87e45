// What every instruction set provides: one table of plain function pointers per translation unit
// table_<isa>.cc.
//
// All tables give the same bits for the same input (a NaN stays a NaN; its sign and payload are not
// promised), because the arithmetic is the same element by element: no fused multiply-add, no
// reassociation, the same rounding. So ranks on different machines agree, and the choice of table
// is a matter of speed only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/tensor_codec.h"

namespace hvdlite::kernels::cpu {

// How two elements are combined. For bool: kSum and kMax are OR, kProduct and kMin are AND.
enum class Combine : uint8_t { kSum = 0, kProduct = 1, kMin = 2, kMax = 3 };
constexpr int kCombineCount = 4;

// For floating types. Integers and bool are scaled elsewhere (integer_scale.h) and have kNone only.
enum class Scaling : uint8_t {
  kNone = 0,   // all factors are 1
  kFinal = 1,  // one multiplication at the end, by `postscale`; the other factors are 1
  kAll = 2,    // every factor, in the order that ReduceArgs shows
};
constexpr int kScalingCount = 3;

// Of kernels/digest.h: the words that are mixed side by side, and the odd factor of a step.
constexpr int kDigestLanes = 32;
constexpr uint32_t kDigestFactor = 0x9E3779B1;

struct ReduceArgs {
  void* destination;
  void* second;  // null, or stored like `destination`
  const void* const* sources;
  int n;         // >= 1
  size_t bytes;  // of each array; a multiple of the element's size
  // y = ((x_0 * prescale) combine (x_1 * prescale) combine ...) / divisor * postscale; the factors
  // are cast to the accumulator's type.
  double prescale = 1.0;
  double divisor = 1.0;
  double postscale = 1.0;
};

// Of kernels/codec.h: what a codec's kernels get.
struct EncodeArgs {
  const float* input;
  const float* residual;  // may be null
  float scale;
  int64_t count;
  double parameter;
  uint64_t key;
  uint64_t block;
  uint8_t* encoded;
  float* lost;  // null: what is lost is kept nowhere
};
struct DecodeArgs {
  const uint8_t* encoded;
  int64_t count;
  double parameter;
  bool add;
  float* values;
};

// Of kernels/select.h: a pass over memory, which notes the elements that may be taken.
constexpr int kSelectStride = 64;  // the most elements that are noted at a time
constexpr uint32_t kSelectMagnitude = 0x7FFFFFFF;
struct SelectArgs {
  const float* gradient;
  const float* residual;
  const float* velocity;
  float momentum;
  bool nesterov;
  float* new_residual;
  float* new_velocity;
  int64_t count;
  bool stream;  // past the caches

  int64_t at;         // the next element; the pass ends before `count` where there is no room
  int32_t threshold;  // bits of a magnitude: elements with a greater one are candidates
  uint64_t* candidates;
  int64_t found, room;  // at least kSelectStride more than are found
};
// A candidate is greater than another one if it is taken first: by magnitude, then by position.
constexpr uint64_t CandidateOf(uint32_t bits, int64_t position) {
  return uint64_t{bits & kSelectMagnitude} << 32 |
         (~static_cast<uint64_t>(position) & kSelectMagnitude) << 1 | bits >> 31;
}

struct KernelTable {
  using ReduceKernel = void (*)(const ReduceArgs&);
  // out = {a.b, a.a, b.b}: sixteen interleaved double sums, added as a tree; the same on every
  // instruction set.
  using DotKernel = void (*)(const void* a, const void* b, int64_t count, double out[3]);
  // a = alpha * a + beta * b
  using BlendKernel = void (*)(void* a, const void* b, int64_t count, double alpha, double beta);

  // For each stripe of words: x = lanes[i] ^ word i; lanes[i] = (x ^ x >> 15) * kDigestFactor.
  using DigestKernel = void (*)(const void* data, size_t stripes, uint32_t lanes[kDigestLanes]);

  using SelectKernel = void (*)(SelectArgs*);

  struct CodecKernel {
    int block;  // elements
    // Of an encoded block of `count` elements.
    int64_t (*bytes)(double parameter, int count);
    void (*encode)(const EncodeArgs&);
    void (*decode)(const DecodeArgs&);
  };

  const char* name;
  ReduceKernel reduce[kDTypeCount][kCombineCount][kScalingCount];
  // Set for float16 and bfloat16, null for the others. reduce_wide has a destination in float32;
  // round has one source, in float32.
  ReduceKernel reduce_wide[kDTypeCount][kCombineCount][kScalingCount];
  ReduceKernel round[kDTypeCount];
  DotKernel dot[kDTypeCount];      // null for integers and bool
  BlendKernel blend[kDTypeCount];  // null for integers and bool
  DigestKernel digest;
  SelectKernel select;
  CodecKernel codecs[kCodecCount];  // the first is no codec
};

}  // namespace hvdlite::kernels::cpu
