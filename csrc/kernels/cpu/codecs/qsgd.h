// qsgd(levels): -levels ... levels in 8 bits, or in 4 if there are at most 7, and a scale for 256
// elements: the greatest magnitude / levels. Rounds up or down at random so that the mean of many
// draws is the element (QSGD, with the greatest magnitude in place of the norm). 3.94 or 7.76 times
// smaller.
#pragma once

#include "kernels/cpu/codecs/blocks.h"

namespace hvdlite::kernels::cpu::codecs {
namespace {

struct Qsgd {
  static constexpr int kBlock = 256;
  static constexpr bool kHasScale = true;
  int levels;

  explicit Qsgd(double parameter) : levels(static_cast<int>(parameter)) {}
  HVDLITE_INLINE int planes() const { return levels <= 7 ? 2 : 1; }

  HVDLITE_INLINE float Scale(const float* block, int) const {
    const float scale = Greatest<kBlock>(block) / static_cast<float>(levels);
    return scale < kLeastScale ? 0 : scale;
  }
  template <class Put>
  HVDLITE_INLINE void Encode(const float* block, float scale, const Draws& draws, uint8_t* codes,
                             const Put& put) const {
    planes() == 2 ? EncodeIn<2>(block, scale, draws, codes, put)
                  : EncodeIn<1>(block, scale, draws, codes, put);
  }
  template <class Put>
  HVDLITE_INLINE void Decode(const uint8_t* codes, float scale, const Put& put) const {
    planes() == 2 ? DecodeIn<2>(codes, scale, put) : DecodeIn<1>(codes, scale, put);
  }

 private:
  // The code of 0: the middle of a byte or of half a byte.
  template <int kPlanes>
  static constexpr uint32_t kZero = kPlanes == 2 ? 8 : 128;

  template <int kPlanes, class Put>
  HVDLITE_INLINE void EncodeIn(const float* block, float scale, const Draws& draws, uint8_t* codes,
                               const Put& put) const {
    const VFloat step = Splat<VFloat>(scale), factor = Splat<VFloat>(Reciprocal(scale));
    const VInt32 most = Splat<VInt32>(levels);
    Pack<kBlock, kPlanes>(codes, [&](int i) __attribute__((always_inline)) {
      const VUint32 bits = Load<VUint32>(block + i);
      const VFloat steps = Bits<VFloat>(bits & kMagnitude) * factor + draws.At(i);
      VInt32 level = __builtin_convertvector(steps, VInt32);
      level = level < most ? level : most;  // the sum above may be rounded up
      const VInt32 negative = Bits<VInt32>(bits) >> 31;
      const VUint32 code = Bits<VUint32>((level ^ negative) - negative) + kZero<kPlanes>;
      put(i, Value<kPlanes>(code, step));
      return code;
    });
  }
  template <int kPlanes, class Put>
  static HVDLITE_INLINE void DecodeIn(const uint8_t* codes, float scale, const Put& put) {
    const VFloat step = Splat<VFloat>(scale);
    Unpack<kBlock, kPlanes>(codes, [&](int i, VUint32 code) __attribute__((always_inline)) {
      put(i, Value<kPlanes>(code, step));
    });
  }
  template <int kPlanes>
  static HVDLITE_INLINE VFloat Value(VUint32 code, VFloat step) {
    constexpr uint32_t kMask = kPlanes == 2 ? 0xF : 0xFF;
    return ToFloat((code & kMask) - kZero<kPlanes>) * step;
  }
};

}  // namespace
}  // namespace hvdlite::kernels::cpu::codecs
