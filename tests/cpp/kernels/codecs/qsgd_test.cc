#include <gtest/gtest.h>

#include "codec_case.h"

namespace hvdlite::kernels {
namespace {

TEST(QsgdCodec, RoundsToANeighbouringLevel) {
  for (const int levels : {1, 4, 7, 8, 127}) {
    const Floats values = Normal(256, 1);
    float greatest = 0;
    for (const float value : values) greatest = std::max(greatest, std::fabs(value));
    const float step = greatest / static_cast<float>(levels);
    const Floats back = ThereAndBack({Codec::kQsgd, static_cast<double>(levels)}, values);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_LE(std::fabs(values[i] - back[i]), step * 1.0001F) << levels;
      ASSERT_NEAR(back[i] / step, std::nearbyint(back[i] / step), 1e-4) << levels;
    }
  }
}

TEST(QsgdCodec, TheMeanOfManyDrawsIsTheElement) {
  constexpr int kDraws = 100000;
  const Floats values = Normal(32, 2);
  for (const int levels : {4, 16}) {
    const Drawn drawn = Draw({Codec::kQsgd, static_cast<double>(levels)}, values, kDraws);
    for (size_t i = 0; i < values.size(); ++i) {
      const double sigma = drawn.deviation[i] / std::sqrt(kDraws);
      ASSERT_NEAR(drawn.mean[i], values[i], 3 * sigma + 1e-5) << levels << " " << i;
    }
  }
}

}  // namespace
}  // namespace hvdlite::kernels
