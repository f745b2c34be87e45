// threshold(t): -t, 0 or t in 2 bits: t for an element of at least t, -t for one of at most -t,
// else 0 (MXNet's 2-bit compression). Useful with a residual only, which collects what is below t.
// 16 times smaller. There is no scale: the fourth code stands for a block that is not finite.
#pragma once

#include "kernels/cpu/codecs/blocks.h"

namespace hvdlite::kernels::cpu::codecs {
namespace {

struct Threshold {
  static constexpr int kBlock = 1024;
  static constexpr bool kHasScale = false;
  float t;

  explicit Threshold(double parameter) : t(static_cast<float>(parameter)) {}
  static constexpr int planes() { return 4; }

  static HVDLITE_INLINE float Scale(const float* block, int) { return Greatest<kBlock>(block); }
  template <class Put>
  HVDLITE_INLINE void Encode(const float* block, float scale, const Draws&, uint8_t* codes,
                             const Put& put) const {
    if (scale != scale) {
      __builtin_memset(codes, 0xFF, kBlock / 4);
      return;
    }
    const VFloat up = Splat<VFloat>(t), down = Splat<VFloat>(-t);
    Pack<kBlock, 4>(codes, [&](int i) __attribute__((always_inline)) {
      const VFloat value = Load<VFloat>(block + i);
      // A comparison is -1 where it holds.
      const VUint32 code = 1u - Bits<VUint32>(value >= up) + Bits<VUint32>(value <= down);
      put(i, Value(code, up));
      return code;
    });
  }
  template <class Put>
  HVDLITE_INLINE void Decode(const uint8_t* codes, float, const Put& put) const {
    const VFloat all = Splat<VFloat>(t);
    Unpack<kBlock, 4>(codes, [&](int i, VUint32 code)
                                 __attribute__((always_inline)) { put(i, Value(code, all)); });
  }

 private:
  static HVDLITE_INLINE VFloat Value(VUint32 code, VFloat all) {
    const VUint32 two = code & 3u;
    const VUint32 nan = Bits<VUint32>(two == 3u) & kNanBits;
    return Bits<VFloat>(Bits<VUint32>(ToFloat(two - 1u) * all) | nan);
  }
};

}  // namespace
}  // namespace hvdlite::kernels::cpu::codecs
