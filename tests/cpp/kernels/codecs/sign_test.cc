#include <gtest/gtest.h>

#include "codec_case.h"

namespace hvdlite::kernels {
namespace {

constexpr CodecSpec kSign{Codec::kSign, 0};

TEST(SignCodec, IsTheMeanMagnitudeWithTheSignOfTheElement) {
  for (const size_t count : {size_t{1024}, size_t{10}, size_t{1}}) {
    const Floats values = Normal(count, 1);
    double mean = 0;
    for (const float value : values) mean += std::fabs(value) / static_cast<double>(count);
    const Floats back = ThereAndBack(kSign, values);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_NEAR(std::fabs(back[i]), mean, 1e-5 * mean);
      ASSERT_EQ(std::signbit(back[i]), std::signbit(values[i]));
    }
  }
}

TEST(SignCodec, IsTheMeanMagnitudeAlsoWhereTheSumOverflows) {
  constexpr float kMost = std::numeric_limits<float>::max();
  for (const size_t count : {size_t{1024}, size_t{1000}, size_t{3}}) {
    Floats values(count, kMost);
    for (size_t i = 0; i < count; ++i) {
      if (i % 2 == 0) values[i] = -kMost;
      if (i % 4 == 3) values[i] = 1;
    }
    double mean = 0;
    for (const float value : values) mean += std::fabs(value) / static_cast<double>(count);
    const Floats back = ThereAndBack(kSign, values);
    for (size_t i = 0; i < count; ++i) ASSERT_NEAR(std::fabs(back[i]), mean, 1e-5 * mean) << count;
  }
  for (size_t count = 1; count <= 1024; ++count) {
    for (const float back : ThereAndBack(kSign, Floats(count, kMost)))
      ASSERT_NEAR(back, kMost, 1e-5 * kMost) << count;
  }
}

// What error feedback needs: |p - C(p)| < |p|.
TEST(SignCodec, LosesLessThanThereIs) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Floats values = Normal(1024, seed, seed % 2 == 0 ? 1.0F : 1e-3F);
    const Floats back = ThereAndBack(kSign, values);
    double lost = 0, all = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      lost += std::pow(values[i] - back[i], 2);
      all += std::pow(values[i], 2);
    }
    ASSERT_LT(lost, all);
  }
}

// Byte j has the elements j, j + stride, j + 2 stride, ...: also in a short block.
TEST(SignCodec, PacksEightElementsOfAStrideIntoAByte) {
  for (const size_t count : {size_t{1024}, size_t{100}}) {
    const Floats values = Normal(count, 3);
    const Coded coded = EncodeOn(cpu::ActiveTable(), kSign, {values.data(), nullptr, 1}, count);
    const size_t stride = (count + 7) / 8;
    ASSERT_EQ(coded.size(), 4 + stride);
    for (size_t i = 0; i < count; ++i)
      ASSERT_EQ((coded[4 + i % stride] >> (i / stride) & 1) != 0, values[i] < 0) << i;
  }
}

}  // namespace
}  // namespace hvdlite::kernels
