// ternary(clip): -1, 0 or 1 in 2 bits, and a scale s for 1024 elements (TernGrad). An element is
// clipped to clip * sigma, sigma being the root mean square of its block; s is the greatest
// magnitude then. The code is the sign with probability |element| / s, else 0, so the mean of many
// draws is the clipped element. 15.75 times smaller.
#pragma once

#include "kernels/cpu/codecs/blocks.h"

namespace hvdlite::kernels::cpu::codecs {
namespace {

struct Ternary {
  static constexpr int kBlock = 1024;
  static constexpr bool kHasScale = true;
  float clip;

  explicit Ternary(double parameter) : clip(static_cast<float>(parameter)) {}
  static constexpr int planes() { return 4; }

  HVDLITE_INLINE float Scale(const float* block, int count) const {
    const float greatest = Greatest<kBlock>(block);
    if (greatest < kLeastScale) return 0;
    // Of elements divided by the greatest, whose squares neither overflow nor vanish.
    const VFloat factor = Splat<VFloat>(1 / greatest);
    const float squares = SumOf<kBlock>(block, [&](VFloat v) __attribute__((always_inline)) {
      const VFloat part = v * factor;
      return part * part;
    });
    const float sigma = __builtin_sqrtf(squares / static_cast<float>(count));
    const float clipped = clip * sigma;
    return clipped < 1 ? greatest * clipped : greatest;
  }
  template <class Put>
  static HVDLITE_INLINE void Encode(const float* block, float scale, const Draws& draws,
                                    uint8_t* codes, const Put& put) {
    const VFloat all = Splat<VFloat>(scale);
    Pack<kBlock, 4>(codes, [&](int i) __attribute__((always_inline)) {
      const VUint32 bits = Load<VUint32>(block + i);
      const VUint32 drawn = Bits<VUint32>(draws.At(i) * all < Bits<VFloat>(bits & kMagnitude));
      const VUint32 code = (drawn & (1u - (bits >> 31 << 1))) + 1u;
      put(i, Value(code, all));
      return code;
    });
  }
  template <class Put>
  static HVDLITE_INLINE void Decode(const uint8_t* codes, float scale, const Put& put) {
    const VFloat all = Splat<VFloat>(scale);
    Unpack<kBlock, 4>(codes, [&](int i, VUint32 code)
                                 __attribute__((always_inline)) { put(i, Value(code, all)); });
  }

 private:
  static HVDLITE_INLINE VFloat Value(VUint32 code, VFloat all) {
    return ToFloat((code & 3u) - 1u) * all;
  }
};

}  // namespace
}  // namespace hvdlite::kernels::cpu::codecs
