#include <gtest/gtest.h>

#include "codec_case.h"

namespace hvdlite::kernels {
namespace {

TEST(ThresholdCodec, IsTForWhatReachesItAndZeroOtherwise) {
  const float t = 0.5F;
  Floats values = Normal(3000, 1);
  values[0] = t;
  values[1] = -t;
  values[2] = std::nextafter(t, 0.0F);
  const Floats back = ThereAndBack({Codec::kThreshold, t}, values);
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(back[i], values[i] >= t ? t : values[i] <= -t ? -t : 0) << values[i];
}

}  // namespace
}  // namespace hvdlite::kernels
