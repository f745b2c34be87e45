#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/reduce.h"
#include "kernels/reference.h"

namespace hvdlite {
namespace {

using kernels::reference::Brain;
using kernels::reference::Half;

// `quiet`: the bit that a signalling NaN gains. Its payload stays.
template <class Format>
void ExpectAllToComeBack(float (*widen)(uint16_t), uint16_t (*narrow)(float), int quiet) {
  for (int i = 0; i < 65536; ++i) {
    const uint16_t bits = static_cast<uint16_t>(i);
    const float value = widen(bits);
    if (Format::IsNan(bits)) {
      ASSERT_TRUE(std::isnan(value)) << i;
      ASSERT_EQ(narrow(value), bits | quiet) << i;
      continue;
    }
    ASSERT_EQ(value, Format::Decode(bits)) << i;
    ASSERT_EQ(std::signbit(value), i >= 0x8000) << i;
    ASSERT_EQ(narrow(value), bits) << i;
  }
}

TEST(HalfTest, EveryFloat16WidensToItsValueAndComesBack) {
  ExpectAllToComeBack<Half>(HalfToFloat, FloatToHalf, 0x200);
}

TEST(HalfTest, EveryBFloat16WidensToItsValueAndComesBack) {
  ExpectAllToComeBack<Brain>(BFloat16ToFloat, FloatToBFloat16, 0x40);
}

// Floats at, just below and just above every 16-bit value and every midpoint between two of them.
template <class Format>
std::vector<float> Boundaries() {
  std::vector<float> values;
  for (int i = 0; i < 0x8000; ++i) {
    const float low = Format::Decode(static_cast<uint16_t>(i));
    const float high = Format::Decode(static_cast<uint16_t>(i + 1));
    if (!std::isfinite(low)) break;
    const float middle = std::isfinite(high)
                             ? low + (high - low) / 2
                             : low + (low - Format::Decode(static_cast<uint16_t>(i - 1))) / 2;
    for (const float value : {low, middle}) {
      for (const float toward : {-INFINITY, value, INFINITY}) {
        values.push_back(std::nextafter(value, toward));
        values.push_back(-values.back());
      }
    }
  }
  values.insert(values.end(), {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 3.4e38f, -3.4e38f, 1e-45f});
  std::mt19937 random(7);
  for (int i = 0; i < 200000; ++i)
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  return values;
}

TEST(HalfTest, NarrowingToFloat16RoundsToNearestEvenAtEveryBoundary) {
  for (const float value : Boundaries<Half>()) {
    if (std::isnan(value)) {
      ASSERT_TRUE(Half::IsNan(FloatToHalf(value)));
    } else {
      ASSERT_EQ(FloatToHalf(value), Half::Encode(value)) << std::hexfloat << value;
    }
  }
}

TEST(HalfTest, NarrowingToBFloat16RoundsToNearestEvenAtEveryBoundary) {
  for (const float value : Boundaries<Brain>()) {
    if (std::isnan(value)) {
      ASSERT_TRUE(Brain::IsNan(FloatToBFloat16(value)));
    } else {
      ASSERT_EQ(FloatToBFloat16(value), Brain::Encode(value)) << std::hexfloat << value;
    }
  }
}

// The vector conversions are reached through a scaling by a power of two, which is exact in
// float32: so all 65536 patterns are widened, and are narrowed again from subnormal, normal and
// overflowing results.
TEST(HalfTest, EveryInstructionSetConvertsEveryPatternAsTheScalarCodeDoes) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  for (const kernels::cpu::KernelTable* table : kernels::cpu::SupportedTables()) {
    for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
      for (const double factor : {0x1p-20, 0x1p-9, 0x1p-3, 0.75, 1.0009765625, 3.0, 0x1p9}) {
        std::vector<uint16_t> data = all;
        kernels::cpu::Scale(*table, dtype, data.data(), 65536, factor);
        for (size_t i = 0; i < all.size(); ++i) {
          const float f = static_cast<float>(factor);
          const bool half = dtype == DType::kFloat16;
          const uint16_t expected = half ? FloatToHalf(HalfToFloat(all[i]) * f)
                                         : FloatToBFloat16(BFloat16ToFloat(all[i]) * f);
          const bool nan = half ? Half::IsNan(expected) : Brain::IsNan(expected);
          ASSERT_TRUE(data[i] == expected ||
                      (nan && (half ? Half::IsNan(data[i]) : Brain::IsNan(data[i]))))
              << table->name << ' ' << Name(dtype) << ' ' << i << " * " << factor << ": "
              << data[i];
        }
      }
    }
  }
}

}  // namespace
}  // namespace hvdlite
