// The codecs of base/tensor_codecs.def on a GPU, each the arithmetic of
// csrc/kernels/cpu/codecs/<name>.h for one element.
#pragma once

#include "kernels/cuda/codec_blocks.cuh"

namespace hvdlite::kernels::cuda {

// Codecs whose scale is the greatest magnitude divided by a number.
template <int kElements>
struct ByGreatest {
  static constexpr int kBlock = kElements;
  static constexpr bool kHasScale = true;
  static __device__ float ScaleBy(const Warp& warp, Room<kBlock>& room, float divisor) {
    const float scale = Greatest(warp, room) / divisor;
    return scale < kLeastScale ? 0 : scale;
  }
  static __device__ float Factor(float scale) { return Reciprocal(scale); }
};

struct Int8 : ByGreatest<256> {
  static constexpr bool kDraws = false;
  static constexpr unsigned kZero = 128;

  explicit __device__ Int8(double) {}
  static constexpr __device__ int planes() { return 1; }

  static __device__ float Scale(const Warp& warp, Room<kBlock>& room, int) {
    return ScaleBy(warp, room, 127);
  }
  static __device__ unsigned Code(float value, float factor, float) {
    return Nearest(value * factor) + kZero;
  }
  static __device__ float Value(unsigned code, float scale) {
    return static_cast<float>(static_cast<int>(code - kZero)) * scale;
  }
};

struct Fp8 : ByGreatest<256> {
  static constexpr bool kDraws = false;
  static constexpr float kLargest = 448;
  static constexpr float kStep = 0x1p-9F;
  static constexpr unsigned kFirstNormal = 0x08;
  static constexpr unsigned kBias = 127 - 7;
  static constexpr unsigned kRound = 0x0007FFFF;
  static constexpr unsigned kNormal = 0x3C800000;
  static constexpr unsigned kShifter = 0x46800000;

  explicit __device__ Fp8(double) {}
  static constexpr __device__ int planes() { return 1; }

  static __device__ float Scale(const Warp& warp, Room<kBlock>& room, int) {
    return ScaleBy(warp, room, kLargest);
  }
  static __device__ unsigned Code(float value, float factor, float) {
    const unsigned all = __float_as_uint(value * factor);
    const unsigned bits = all & kMagnitudeBits;
    const unsigned normal = ((bits + kRound + ((bits >> 20) & 1u)) >> 20) - (kBias << 3);
    const unsigned subnormal =
        __float_as_uint(__uint_as_float(bits) + __uint_as_float(kShifter)) - kShifter;
    return (bits < kNormal ? subnormal : normal) | ((all & kSignBit) >> 24);
  }
  static __device__ float Value(unsigned code, float scale) {
    const unsigned magnitude = code & 0x7Fu;
    const unsigned bits = magnitude < kFirstNormal
                              ? __float_as_uint(static_cast<float>(magnitude) * kStep)
                              : (magnitude << 20) + (kBias << 23);
    return __uint_as_float(bits | ((code & 0x80u) << 24)) * scale;
  }
};

struct Sign {
  static constexpr int kBlock = 1024;
  static constexpr bool kHasScale = true;
  static constexpr bool kDraws = false;

  explicit __device__ Sign(double) {}
  static constexpr __device__ int planes() { return 8; }

  static __device__ float Scale(const Warp& warp, Room<kBlock>& room, int count) {
    const float sum = SumOf(warp, room, [](float value) { return Magnitude(value); });
    return sum - sum == 0 ? sum / static_cast<float>(count) : LargeMean(warp, room, count);
  }
  // Of a block whose sum overflows, or which is not finite.
  static __device__ float LargeMean(const Warp& warp, Room<kBlock>& room, int count) {
    constexpr float kSmaller = 1.0F / kBlock;
    constexpr float kMostSmaller = 0x1.FFFFFEp127F / kBlock;
    warp.Step(0, [](int) {});  // all lanes have read the sum in room.sums
    const float sum = SumOf(warp, room, [](float value) { return Magnitude(value) * kSmaller; });
    if (sum - sum != 0) return __uint_as_float(kNanBits);
    const float mean = sum / static_cast<float>(count);
    return (mean < kMostSmaller ? mean : kMostSmaller) / kSmaller;
  }
  static __device__ float Factor(float scale) { return scale; }
  static __device__ unsigned Code(float value, float, float) {
    return __float_as_uint(value) >> 31;
  }
  static __device__ float Value(unsigned code, float scale) {
    return __uint_as_float(__float_as_uint(scale) ^ (code << 31));
  }
};

struct Ternary {
  static constexpr int kBlock = 1024;
  static constexpr bool kHasScale = true;
  static constexpr bool kDraws = true;

  explicit __device__ Ternary(double parameter) : clip(static_cast<float>(parameter)) {}
  static constexpr __device__ int planes() { return 4; }

  __device__ float Scale(const Warp& warp, Room<kBlock>& room, int count) const {
    const float greatest = Greatest(warp, room);
    if (greatest < kLeastScale) return 0;
    const float factor = 1 / greatest;
    const float squares = SumOf(warp, room, [factor](float value) {
      const float part = value * factor;
      return part * part;
    });
    const float sigma = __fsqrt_rn(squares / static_cast<float>(count));
    const float clipped = clip * sigma;
    return clipped < 1 ? greatest * clipped : greatest;
  }
  static __device__ float Factor(float scale) { return scale; }
  static __device__ unsigned Code(float value, float factor, float draw) {
    const unsigned drawn = draw * factor < Magnitude(value) ? ~0u : 0u;
    return (drawn & (1u - (__float_as_uint(value) >> 31 << 1))) + 1u;
  }
  static __device__ float Value(unsigned code, float scale) {
    return static_cast<float>(static_cast<int>((code & 3u) - 1u)) * scale;
  }

  float clip;
};

struct Threshold {
  static constexpr int kBlock = 1024;
  static constexpr bool kHasScale = false;
  static constexpr bool kDraws = false;

  explicit __device__ Threshold(double parameter) : t(static_cast<float>(parameter)) {}
  static constexpr __device__ int planes() { return 4; }

  static __device__ float Scale(const Warp& warp, Room<kBlock>& room, int) {
    return Greatest(warp, room);
  }
  static __device__ float Factor(float scale) { return scale; }
  __device__ unsigned Code(float value, float, float) const {
    return 1u + (value >= t ? 1u : 0u) - (value <= -t ? 1u : 0u);
  }
  __device__ float Value(unsigned code, float) const {
    const unsigned two = code & 3u;
    if (two == 3u) return __uint_as_float(kNanBits);
    return static_cast<float>(static_cast<int>(two - 1u)) * t;
  }

  float t;
};

struct Qsgd : ByGreatest<256> {
  static constexpr bool kDraws = true;

  explicit __device__ Qsgd(double parameter)
      : levels(static_cast<int>(parameter)), zero(levels <= 7 ? 8 : 128) {}
  __device__ int planes() const { return levels <= 7 ? 2 : 1; }

  __device__ float Scale(const Warp& warp, Room<kBlock>& room, int) const {
    return ScaleBy(warp, room, static_cast<float>(levels));
  }
  __device__ unsigned Code(float value, float factor, float draw) const {
    const int rounded = static_cast<int>(Magnitude(value) * factor + draw);
    const int level = rounded < levels ? rounded : levels;  // the sum above may be rounded up
    return static_cast<unsigned>(value < 0 ? -level : level) + zero;
  }
  __device__ float Value(unsigned code, float scale) const {
    const unsigned mask = 2 * zero - 1;
    return static_cast<float>(static_cast<int>((code & mask) - zero)) * scale;
  }

  int levels;
  unsigned zero;  // the code of 0: the middle of a byte or of half a byte
};

}  // namespace hvdlite::kernels::cuda
