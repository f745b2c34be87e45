// int8: 8 bits, and a scale for 256 elements: the greatest magnitude / 127. Rounds to nearest, so
// an element is off by half a scale at most. 3.94 times smaller.
#pragma once

#include "kernels/cpu/codecs/blocks.h"

namespace hvdlite::kernels::cpu::codecs {
namespace {

struct Int8 {
  static constexpr int kBlock = 256;
  static constexpr bool kHasScale = true;
  static constexpr uint32_t kZero = 128;  // the code of 0

  explicit Int8(double) {}
  static constexpr int planes() { return 1; }

  static HVDLITE_INLINE float Scale(const float* block, int) {
    const float scale = Greatest<kBlock>(block) / 127;
    return scale < kLeastScale ? 0 : scale;
  }
  static HVDLITE_INLINE void Encode(const float* block, float scale, const Draws&, uint8_t* codes) {
    const VFloat factor = Splat<VFloat>(Reciprocal(scale));
    Pack<kBlock, 1>(codes, [&](int i) __attribute__((always_inline)) {
      return Nearest(Load<VFloat>(block + i) * factor) + kZero;
    });
  }
  static HVDLITE_INLINE void Decode(const uint8_t* codes, float scale, float* block) {
    const VFloat factor = Splat<VFloat>(scale);
    Unpack<kBlock, 1>(codes, [&](int i, VUint32 code) __attribute__((always_inline)) {
      Store(block + i, ToFloat(code - kZero) * factor);
    });
  }
};

}  // namespace
}  // namespace hvdlite::kernels::cpu::codecs
