// fp8: e4m3 (1 sign, 4 exponent, 3 mantissa bits), and a scale for 256 elements: the greatest
// magnitude / 448, the largest e4m3. Rounds to nearest even, so an element is off by 1/16 of itself
// or by a subnormal's step at most. 3.94 times smaller.
#pragma once

#include "kernels/cpu/codecs/blocks.h"

namespace hvdlite::kernels::cpu::codecs {
namespace {

struct Fp8 {
  static constexpr int kBlock = 256;
  static constexpr bool kHasScale = true;
  static constexpr float kLargest = 448;
  static constexpr float kStep = 0x1p-9F;           // between subnormals
  static constexpr uint32_t kFirstNormal = 0x08;    // the code of 2^-6
  static constexpr uint32_t kBias = 127 - 7;        // between the exponents
  static constexpr uint32_t kRound = 0x0007FFFF;    // a bit less than half of what is cut off
  static constexpr uint32_t kNormal = 0x3C800000;   // the bits of 2^-6
  static constexpr uint32_t kShifter = 0x46800000;  // the bits of 2^14, whose last bit is kStep

  explicit Fp8(double) {}
  static constexpr int planes() { return 1; }

  static HVDLITE_INLINE float Scale(const float* block, int) {
    const float scale = Greatest<kBlock>(block) / kLargest;
    return scale < kLeastScale ? 0 : scale;
  }
  template <class Put>
  static HVDLITE_INLINE void Encode(const float* block, float scale, const Draws&, uint8_t* codes,
                                    const Put& put) {
    const VFloat unit = Splat<VFloat>(scale), factor = Splat<VFloat>(Reciprocal(scale));
    const VFloat shifter = Bits<VFloat>(Splat<VUint32>(kShifter));
    Pack<kBlock, 1>(codes, [&](int i) __attribute__((always_inline)) {
      const VFloat value = Load<VFloat>(block + i) * factor;
      const VUint32 bits = MagnitudeBits(value);
      const VUint32 normal = ((bits + kRound + ((bits >> 20) & 1u)) >> 20) - (kBias << 3);
      const VUint32 subnormal = Bits<VUint32>(Bits<VFloat>(bits) + shifter) - kShifter;
      const VUint32 magnitude = bits < kNormal ? subnormal : normal;
      const VUint32 code = magnitude | ((Bits<VUint32>(value) & kSignBit) >> 24);
      put(i, Value(code, unit));
      return code;
    });
  }
  template <class Put>
  static HVDLITE_INLINE void Decode(const uint8_t* codes, float scale, const Put& put) {
    const VFloat unit = Splat<VFloat>(scale);
    Unpack<kBlock, 1>(codes, [&](int i, VUint32 code)
                                 __attribute__((always_inline)) { put(i, Value(code, unit)); });
  }

 private:
  static HVDLITE_INLINE VFloat Value(VUint32 code, VFloat unit) {
    const VUint32 magnitude = code & 0x7Fu;
    const VUint32 normal = (magnitude << 20) + (kBias << 23);
    const VUint32 subnormal = Bits<VUint32>(ToFloat(magnitude) * kStep);
    const VUint32 bits = magnitude < kFirstNormal ? subnormal : normal;
    return Bits<VFloat>(bits | ((code & 0x80u) << 24)) * unit;
  }
};

}  // namespace
}  // namespace hvdlite::kernels::cpu::codecs
