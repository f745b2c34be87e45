// sign: 1 bit, and a scale for 1024 elements: the mean magnitude (EF-signSGD). 31 times smaller.
// What is lost of a block is never longer than the block, so that error feedback works.
#pragma once

#include "kernels/cpu/codecs/blocks.h"

namespace hvdlite::kernels::cpu::codecs {
namespace {

struct Sign {
  static constexpr int kBlock = 1024;
  static constexpr bool kHasScale = true;

  explicit Sign(double) {}
  static constexpr int planes() { return 8; }

  static HVDLITE_INLINE float Scale(const float* block, int count) {
    const float sum =
        SumOf<kBlock>(block, [](VFloat v) __attribute__((always_inline)) { return Magnitude(v); });
    return sum - sum == 0 ? sum / static_cast<float>(count) : LargeMean(block, count);
  }
  template <class Put>
  static HVDLITE_INLINE void Encode(const float* block, float scale, const Draws&, uint8_t* codes,
                                    const Put& put) {
    const VFloat magnitude = Splat<VFloat>(scale);
    Pack<kBlock, 8>(codes, [&](int i) __attribute__((always_inline)) {
      const VUint32 code = Load<VUint32>(block + i) >> 31;
      put(i, Value(code, magnitude));
      return code;
    });
  }
  template <class Put>
  static HVDLITE_INLINE void Decode(const uint8_t* codes, float scale, const Put& put) {
    const VFloat magnitude = Splat<VFloat>(scale);
    Unpack<kBlock, 8>(codes, [&](int i, VUint32 code) __attribute__((always_inline)) {
      put(i, Value(code, magnitude));
    });
  }

 private:
  // Of a block whose sum overflows, or which is not finite. The mean of finite elements is finite:
  // kBlock of them, made kBlock times smaller, have a finite sum.
  static __attribute__((noinline, cold)) float LargeMean(const float* block, int count) {
    const float sum = SumOf<kBlock>(
        block, [](VFloat v) __attribute__((always_inline)) { return Magnitude(v) * kSmaller; });
    if (sum - sum != 0) return NanFloat();
    const float mean = sum / static_cast<float>(count);
    // The roundings may have made it larger than each element.
    return (mean < kMostSmaller ? mean : kMostSmaller) / kSmaller;
  }
  static constexpr float kSmaller = 1.0F / kBlock;
  static constexpr float kMostSmaller = 0x1.FFFFFEp127F / kBlock;

  static HVDLITE_INLINE VFloat Value(VUint32 code, VFloat magnitude) {
    return Bits<VFloat>(Bits<VUint32>(magnitude) ^ (code << 31));
  }
};

}  // namespace
}  // namespace hvdlite::kernels::cpu::codecs
