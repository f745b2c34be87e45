#include <gtest/gtest.h>

#include <set>

#include "codec_case.h"

namespace hvdlite::kernels {
namespace {

constexpr float kClip = 2.5F;
constexpr CodecSpec kTernary{Codec::kTernary, kClip};

// The greatest magnitude after clipping.
float ScaleOf(const Floats& block, float clip) {
  double squares = 0;
  float greatest = 0;
  for (const float value : block) {
    squares += static_cast<double>(value) * value;
    greatest = std::max(greatest, std::fabs(value));
  }
  const double sigma = std::sqrt(squares / static_cast<double>(block.size()));
  return std::min(greatest, static_cast<float>(clip * sigma));
}

TEST(TernaryCodec, HasThreeLevels) {
  const Floats values = Normal(1024, 1);
  const Floats back = ThereAndBack(kTernary, values);
  const std::set<float> levels(back.begin(), back.end());
  ASSERT_EQ(levels.size(), 3u);
  EXPECT_EQ(*levels.begin(), -*levels.rbegin());
  EXPECT_NEAR(*levels.rbegin(), ScaleOf(values, kClip), 1e-5);
  for (size_t i = 0; i < back.size(); ++i) EXPECT_GE(back[i] * values[i], 0);
}

// The probability of an element's code is |element| / scale, so the deviation of a draw is known.
// The keys are fixed, so chance does not enter.
TEST(TernaryCodec, TheMeanOfManyDrawsIsTheClippedElement) {
  constexpr int kDraws = 100000;
  const Floats values = Normal(48, 2);
  const Drawn drawn = Draw(kTernary, values, kDraws);
  const double scale = ScaleOf(values, kClip);
  for (size_t i = 0; i < values.size(); ++i) {
    const double clipped = std::copysign(std::min<double>(std::fabs(values[i]), scale), values[i]);
    const double deviation = std::sqrt(std::fabs(clipped) * (scale - std::fabs(clipped)) / kDraws);
    ASSERT_NEAR(drawn.mean[i], clipped, 3 * deviation + 1e-6 * scale) << i;
  }
}

TEST(TernaryCodec, ClipsAtSigmasOfTheBlock) {
  Floats values = Normal(1024, 3);
  values[5] = 100;
  const Floats back = ThereAndBack({Codec::kTernary, 1.5}, values);
  EXPECT_NEAR(back[5], ScaleOf(values, 1.5F), 1e-4);
  EXPECT_LT(back[5], 10);
}

TEST(TernaryCodec, OneElementIsKept) {
  EXPECT_EQ(ThereAndBack(kTernary, {-3.25F}), Floats{-3.25F});
}

TEST(TernaryCodec, DrawsDependOnKeyAndBlock) {
  const Floats values = Normal(1024, 4);
  const Floats first = ThereAndBack(kTernary, values, {1, 0});
  EXPECT_EQ(first, ThereAndBack(kTernary, values, {1, 0}));
  for (const Draws& other : {Draws{2, 0}, Draws{1, 1}}) {
    const Floats back = ThereAndBack(kTernary, values, other);
    int differ = 0;
    for (size_t i = 0; i < values.size(); ++i) differ += back[i] != first[i] ? 1 : 0;
    EXPECT_GT(differ, 200);
  }
}

}  // namespace
}  // namespace hvdlite::kernels
