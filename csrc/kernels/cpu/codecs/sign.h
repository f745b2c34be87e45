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
    return sum - sum == 0 ? sum / static_cast<float>(count) : NanFloat();
  }
  static HVDLITE_INLINE void Encode(const float* block, float, const Draws&, uint8_t* codes) {
    Pack<kBlock, 8>(codes, [&](int i) __attribute__((always_inline)) {
      return Load<VUint32>(block + i) >> 31;
    });
  }
  static HVDLITE_INLINE void Decode(const uint8_t* codes, float scale, float* block) {
    const VUint32 bits = Bits<VUint32>(Splat<VFloat>(scale));
    Unpack<kBlock, 8>(codes, [&](int i, VUint32 code) __attribute__((always_inline)) {
      Store(block + i, bits ^ (code << 31));
    });
  }
};

}  // namespace
}  // namespace hvdlite::kernels::cpu::codecs
