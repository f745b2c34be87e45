#include <gtest/gtest.h>

#include "codec_case.h"

namespace hvdlite::kernels {
namespace {

constexpr CodecSpec kInt8{Codec::kInt8, 0};

TEST(Int8Codec, IsOffByHalfAScaleAtMost) {
  const Floats values = Normal(10 * 256, 1);
  const Floats back = ThereAndBack(kInt8, values);
  for (size_t begin = 0; begin < values.size(); begin += 256) {
    float greatest = 0;
    for (size_t i = begin; i < begin + 256; ++i)
      greatest = std::max(greatest, std::fabs(values[i]));
    for (size_t i = begin; i < begin + 256; ++i)
      ASSERT_LE(std::fabs(values[i] - back[i]), greatest / 127 / 2 * 1.0001F) << i;
  }
}

TEST(Int8Codec, IsAScaleAndThenAByteForEachElement) {
  const Floats values = {-127, 0, 1, 127};
  const Coded coded = EncodeOn(cpu::ActiveTable(), kInt8, {values.data(), nullptr, 1}, 4);
  float scale = 0;
  std::memcpy(&scale, coded.data(), 4);
  EXPECT_EQ(scale, 1);
  EXPECT_EQ(Coded(coded.begin() + 4, coded.end()), (Coded{1, 128, 129, 255}));
}

}  // namespace
}  // namespace hvdlite::kernels
