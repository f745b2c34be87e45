#include "kernels/adasum.h"

#include <gtest/gtest.h>

#include <string>

#include "kernels/cpu/dispatch.h"
#include "kernels/random.h"
#include "kernels/reference.h"

namespace hvdlite::kernels {
namespace {

using reference::Brain;
using reference::Bytes;
using reference::Encode;
using reference::Half;
using reference::Random;

constexpr int64_t kSizes[] = {0,  1,  2,  3,   15,  16,  17,  31,   33,
                              63, 64, 65, 127, 511, 512, 513, 1000, 4097};

double Decode(DType dtype, const Bytes& data, int64_t i) {
  switch (dtype) {
    case DType::kFloat16: return Half::Decode(reference::ElementAt<uint16_t>(data.data(), i));
    case DType::kBFloat16: return Brain::Decode(reference::ElementAt<uint16_t>(data.data(), i));
    case DType::kFloat32: return reference::ElementAt<float>(data.data(), i);
    default: return reference::ElementAt<double>(data.data(), i);
  }
}

// One spacing of the type's numbers, relative to the number.
double Epsilon(DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return 0x1p-10;
    case DType::kBFloat16: return 0x1p-7;
    case DType::kFloat32: return 0x1p-23;
    default: return 0x1p-52;
  }
}

class AdasumTest : public ::testing::TestWithParam<DType> {};

TEST_P(AdasumTest, DotsAreTheSameBitsOnEveryInstructionSetAndCloseToTheTruth) {
  for (const int64_t count : kSizes) {
    const Bytes a = Random(GetParam(), count, 1), b = Random(GetParam(), count, 2);
    long double ab = 0, aa = 0, bb = 0;
    for (int64_t i = 0; i < count; ++i) {
      const long double x = Decode(GetParam(), a, i), y = Decode(GetParam(), b, i);
      ab += x * y;
      aa += x * x;
      bb += y * y;
    }
    const AdasumDots dots = AdasumDot(GetParam(), a.data(), b.data(), count);
    const double tolerance = 1e-15 * static_cast<double>(count);
    EXPECT_NEAR(dots.ab, static_cast<double>(ab), tolerance);
    EXPECT_NEAR(dots.aa, static_cast<double>(aa), tolerance * 2);
    EXPECT_NEAR(dots.bb, static_cast<double>(bb), tolerance * 2);
    for (const cpu::KernelTable* table : cpu::SupportedTables()) {
      double out[3];
      table->dot[static_cast<int>(GetParam())](a.data(), b.data(), count, out);
      EXPECT_TRUE(out[0] == dots.ab && out[1] == dots.aa && out[2] == dots.bb)
          << table->name << ' ' << count;
    }
  }
}

TEST_P(AdasumTest, BlendsAreTheSameBitsOnEveryInstructionSetAndRoundOnce) {
  for (const int64_t count : kSizes) {
    const Bytes a = Random(GetParam(), count, 3), b = Random(GetParam(), count, 4);
    Bytes first;
    for (const cpu::KernelTable* table : cpu::SupportedTables()) {
      Bytes result = a;
      table->blend[static_cast<int>(GetParam())](result.data(), b.data(), count, 0.7, -1.3);
      if (first.empty()) first = result;
      EXPECT_EQ(result, first) << table->name << ' ' << count;
    }
    for (int64_t i = 0; i < count; ++i) {
      const double x = 0.7 * Decode(GetParam(), a, i), y = -1.3 * Decode(GetParam(), b, i);
      const double scale = std::fabs(x) + std::fabs(y);
      ASSERT_NEAR(Decode(GetParam(), first, i), x + y, scale * Epsilon(GetParam())) << i;
    }
  }
}

TEST_P(AdasumTest, OfAVectorWithItselfIsThatVector) {
  for (const int64_t count : kSizes) {
    Bytes a = Random(GetParam(), count, 5);
    const Bytes b = a;
    AdasumCombine(GetParam(), a.data(), b.data(), count,
                  AdasumDot(GetParam(), a.data(), b.data(), count));
    EXPECT_EQ(a, b) << count;
  }
}

TEST_P(AdasumTest, OfOrthogonalVectorsIsTheirSum) {
  Bytes a = Encode(GetParam(), {1, 2, 0, 0, 3});
  const Bytes b = Encode(GetParam(), {0, 0, 5, -7, 0});
  AdasumCombine(GetParam(), a.data(), b.data(), 5, AdasumDot(GetParam(), a.data(), b.data(), 5));
  EXPECT_EQ(a, Encode(GetParam(), {1, 2, 5, -7, 3}));
}

TEST_P(AdasumTest, IsSymmetric) {
  const int64_t count = 1000;
  Bytes a = Random(GetParam(), count, 6), b = Random(GetParam(), count, 7);
  const Bytes old_a = a;
  AdasumCombine(GetParam(), a.data(), b.data(), count,
                AdasumDot(GetParam(), a.data(), b.data(), count));
  AdasumCombine(GetParam(), b.data(), old_a.data(), count,
                AdasumDot(GetParam(), b.data(), old_a.data(), count));
  EXPECT_EQ(a, b);
}

TEST_P(AdasumTest, WithAZeroVectorGivesTheOther) {
  Bytes a = Encode(GetParam(), {0, 0, 0});
  const Bytes b = Encode(GetParam(), {1, -2, 3});
  AdasumCombine(GetParam(), a.data(), b.data(), 3, AdasumDot(GetParam(), a.data(), b.data(), 3));
  EXPECT_EQ(a, b);
}

INSTANTIATE_TEST_SUITE_P(FloatingDTypes, AdasumTest,
                         ::testing::Values(DType::kFloat16, DType::kBFloat16, DType::kFloat32,
                                           DType::kFloat64),
                         [](const auto& parameter) { return std::string(Name(parameter.param)); });

}  // namespace
}  // namespace hvdlite::kernels
