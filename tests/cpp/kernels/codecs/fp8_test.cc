#include <gtest/gtest.h>

#include "codec_case.h"

namespace hvdlite::kernels {
namespace {

constexpr CodecSpec kFp8{Codec::kFp8, 0};

// All finite e4m3 numbers that are not negative, by definition.
Floats Numbers() {
  Floats numbers;
  for (int code = 0; code < 127; ++code) {
    const int exponent = code >> 3, mantissa = code & 7;
    numbers.push_back(exponent == 0
                          ? std::ldexp(static_cast<float>(mantissa), -9)
                          : std::ldexp(1 + static_cast<float>(mantissa) / 8, exponent - 7));
  }
  return numbers;
}

// The nearest one; of two, the one with an even code.
float Rounded(float value) {
  const Floats numbers = Numbers();
  size_t best = 0;
  for (size_t i = 1; i < numbers.size(); ++i) {
    const float now = std::fabs(std::fabs(value) - numbers[i]);
    const float before = std::fabs(std::fabs(value) - numbers[best]);
    if (now < before || (now == before && i % 2 == 0)) best = i;
  }
  return std::copysign(numbers[best], value);
}

TEST(Fp8Codec, RoundsToTheNearestE4m3EvenOnTies) {
  // 448 in the block makes the scale 1.
  Floats values = {448};
  const Floats numbers = Numbers();
  for (size_t i = 0; i + 1 < numbers.size(); ++i) {
    values.push_back(numbers[i]);
    values.push_back((numbers[i] + numbers[i + 1]) / 2);
    values.push_back(-(numbers[i] * 0.7F + numbers[i + 1] * 0.3F));
  }
  for (size_t begin = 1; begin < values.size(); begin += 255) {
    Floats block(values.begin() + static_cast<long>(begin),
                 values.begin() + static_cast<long>(std::min(values.size(), begin + 255)));
    block.push_back(448);
    const Floats back = ThereAndBack(kFp8, block);
    for (size_t i = 0; i < block.size(); ++i) ASSERT_EQ(back[i], Rounded(block[i])) << block[i];
  }
}

TEST(Fp8Codec, IsOffByASixteenthOrByHalfASubnormalStep) {
  const Floats values = Normal(4 * 256, 2);
  const Floats back = ThereAndBack(kFp8, values);
  for (size_t begin = 0; begin < values.size(); begin += 256) {
    float greatest = 0;
    for (size_t i = begin; i < begin + 256; ++i)
      greatest = std::max(greatest, std::fabs(values[i]));
    for (size_t i = begin; i < begin + 256; ++i) {
      const float bound = std::max(std::fabs(values[i]) / 16, greatest / 448 * 0x1p-10F);
      ASSERT_LE(std::fabs(values[i] - back[i]), bound * 1.0001F) << i;
    }
  }
}

}  // namespace
}  // namespace hvdlite::kernels
