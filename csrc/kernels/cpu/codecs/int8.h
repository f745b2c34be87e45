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
  template <class Put>
  static HVDLITE_INLINE void Encode(const float* block, float scale, const Draws&, uint8_t* codes,
                                    const Put& put) {
    const VFloat step = Splat<VFloat>(scale), factor = Splat<VFloat>(Reciprocal(scale));
    Pack<kBlock, 1>(codes, [&](int i) __attribute__((always_inline)) {
      const VUint32 code = Nearest(Load<VFloat>(block + i) * factor) + kZero;
      put(i, Value(code, step));
      return code;
    });
  }
  template <class Put>
  static HVDLITE_INLINE void Decode(const uint8_t* codes, float scale, const Put& put) {
    const VFloat step = Splat<VFloat>(scale);
    Unpack<kBlock, 1>(codes, [&](int i, VUint32 code)
                                 __attribute__((always_inline)) { put(i, Value(code, step)); });
  }

 private:
  static HVDLITE_INLINE VFloat Value(VUint32 code, VFloat step) {
    return ToFloat(code - kZero) * step;
  }
};

}  // namespace
}  // namespace hvdlite::kernels::cpu::codecs
