// What every codec promises (kernels/codec.h). The tests of single codecs stand beside this one.
#include "codec_case.h"

#include <gtest/gtest.h>

#include <string>

namespace hvdlite::kernels {
namespace {

struct Known {
  CodecSpec spec;
  double at_least;  // times smaller than float32, for a large tensor
};

class EveryCodec : public ::testing::TestWithParam<Known> {
 protected:
  const CodecSpec& spec() const { return GetParam().spec; }
  size_t block() const { return static_cast<size_t>(BlockOf(spec())); }
};

const Known kKnown[] = {
    {{Codec::kInt8, 0}, 3.8},       {{Codec::kFp8, 0}, 3.8},    {{Codec::kSign, 0}, 27},
    {{Codec::kTernary, 2.5}, 14},   {{Codec::kQsgd, 127}, 3.8}, {{Codec::kQsgd, 7}, 7.5},
    {{Codec::kThreshold, 0.5}, 16},
};

INSTANTIATE_TEST_SUITE_P(Known, EveryCodec, ::testing::ValuesIn(kKnown), [](const auto& known) {
  std::string name = std::string(Of(known.param.spec.codec).name);
  return name + std::to_string(known.index);
});

TEST(CodecTable, EveryRowHasATest) {
  for (int number = 1; number < kCodecCount; ++number) {
    const bool tested = std::any_of(std::begin(kKnown), std::end(kKnown), [&](const Known& known) {
      return static_cast<int>(known.spec.codec) == number;
    });
    EXPECT_TRUE(tested) << Of(static_cast<Codec>(number)).name;
  }
}

// Lengths around a block and around a vector.
std::vector<size_t> Lengths(size_t block) {
  return {1, 2, 3, 7, 8, 9, 31, 33, block - 1, block, block + 1, 2 * block + 17, 5 * block};
}

TEST_P(EveryCodec, EveryInstructionSetGivesTheSameBytesAndValuesAtEveryLengthAndAddress) {
  const Floats values = Normal(5 * block() + 8, 1);
  const Floats residual = Normal(5 * block() + 8, 2, 0.3F);
  for (const size_t length : Lengths(block())) {
    for (const size_t offset : {0, 1, 5}) {
      for (const bool plain : {true, false}) {
        const Encoded what{values.data() + offset, plain ? nullptr : residual.data() + offset,
                           plain ? 1.0F : 0.125F};
        const Coded expected =
            EncodeOn(*cpu::SupportedTables().front(), spec(), what, length, {7, 3});
        ASSERT_EQ(expected.size(),
                  static_cast<size_t>(EncodedBytes(spec(), static_cast<int64_t>(length))));
        const Floats back = DecodeOn(*cpu::SupportedTables().front(), spec(), expected, length);
        for (const cpu::KernelTable* table : cpu::SupportedTables()) {
          ASSERT_EQ(EncodeOn(*table, spec(), what, length, {7, 3}), expected)
              << table->name << " " << length;
          const Floats decoded = DecodeOn(*table, spec(), expected, length);
          ASSERT_EQ(std::memcmp(decoded.data(), back.data(), 4 * length), 0)
              << table->name << " " << length;
        }
      }
    }
  }
}

// One pass encodes and keeps what is lost: the same bits as encoding, decoding and subtracting.
TEST_P(EveryCodec, WhatIsLostInOnePassHasTheBitsOfSeveralOnEveryInstructionSet) {
  constexpr size_t kGuard = 64;
  constexpr float kUntouched = 77;
  Floats values = Normal(5 * block() + 8, 21);
  std::fill_n(values.begin() + 8, block() / 2, 0.0F);
  for (size_t i = 2 * block(); i < 3 * block(); ++i) values[i] *= 1e-38F;
  values[3 * block() + 40] = std::numeric_limits<float>::infinity();
  for (const float size : {0.3F, 1e-39F}) {
    const Floats residual = Normal(5 * block() + 8, 22, size);
    for (const size_t length : Lengths(block())) {
      for (const size_t offset : {0, 1, 5}) {
        for (const float scale : {1.0F, 0.125F}) {
          const float* const input = values.data() + offset;
          const auto n = static_cast<int64_t>(length);
          const Encoded what{input, residual.data() + offset, scale};
          const Coded coded = EncodeOn(cpu::ActiveTable(), spec(), what, length, {7, 3});
          const Floats decoded = DecodeOn(cpu::ActiveTable(), spec(), coded, length);
          Floats expected(residual.begin() + static_cast<long>(offset), residual.end());
          KeepLost(spec(), what, decoded.data(), decoded.data(), n, expected.data());
          const Encoded bare{input, nullptr, scale};
          const Coded bare_coded = EncodeOn(cpu::ActiveTable(), spec(), bare, length, {7, 3});
          const Floats bare_decoded = DecodeOn(cpu::ActiveTable(), spec(), bare_coded, length);
          Floats bare_expected(length + kGuard, kUntouched);
          KeepLost(spec(), bare, bare_decoded.data(), bare_decoded.data(), n, bare_expected.data());
          for (const cpu::KernelTable* table : cpu::SupportedTables()) {
            Floats kept = residual;
            float* const in_place = kept.data() + offset;
            ASSERT_EQ(EncodeOn(*table, spec(), {input, in_place, scale}, length, {7, 3}, in_place),
                      coded)
                << table->name << " " << length;
            ASSERT_EQ(std::memcmp(in_place, expected.data(), 4 * expected.size()), 0)
                << table->name << " " << length;
            Floats apart(length + kGuard, kUntouched);
            ASSERT_EQ(EncodeOn(*table, spec(), bare, length, {7, 3}, apart.data()), bare_coded);
            ASSERT_EQ(std::memcmp(apart.data(), bare_expected.data(), 4 * apart.size()), 0)
                << table->name << " " << length;
          }
        }
      }
    }
  }
}

// Another member's block may make the result NaN: then what Encode() has kept is taken back.
TEST_P(EveryCodec, WhatWasKeptIsTakenBackWhereTheResultIsNotFinite) {
  const size_t count = 3 * block() + 9;
  Floats values = Normal(count, 23);
  values[block() + 7] = std::numeric_limits<float>::infinity();  // block 1: my own
  const Floats before = Normal(count, 24, 0.3F);
  Floats residual = before;
  const Encoded what{values.data(), residual.data(), 0.5F};
  const Coded coded = EncodeOn(cpu::ActiveTable(), spec(), what, count, {7, 3}, residual.data());
  const Floats decoded = DecodeOn(cpu::ActiveTable(), spec(), coded, count);
  const Floats kept = residual;
  Floats result = decoded;
  EXPECT_FALSE(IsFinite(spec(), result.data(), static_cast<int64_t>(count)));
  EXPECT_TRUE(IsFinite(spec(), result.data(), static_cast<int64_t>(block())));
  // block 2, and 3, a short one: others'
  std::fill(result.begin() + static_cast<long>(2 * block()), result.end(), std::nanf(""));
  TakeBack(spec(), what, decoded.data(), result.data(), static_cast<int64_t>(count),
           residual.data());
  for (size_t i = 0; i < count; ++i) {
    if (i < block()) {
      ASSERT_EQ(residual[i], kept[i]) << i;
      ASSERT_NE(residual[i], before[i]) << i;
    } else if (i < 2 * block()) {
      ASSERT_EQ(residual[i], before[i]) << i;
    } else {
      const float of = std::fabs(values[i] * 0.5F + before[i]) + std::fabs(decoded[i]);
      ASSERT_NEAR(residual[i], before[i], 0x1p-21 * of) << i;
    }
  }
}

// A finite number may be so great that it hides the residual. Its rounding is no residual.
TEST_P(EveryCodec, NoRoundingOfHugeElementsIsTakenForAResidual) {
  for (const float size : {1e20F, 1e37F}) {
    const size_t count = 2 * block();
    const Floats values = Normal(count, 25, size);
    Floats residual = Normal(count, 26, 0.3F);
    const Encoded what{values.data(), residual.data(), 1};
    const Coded coded = EncodeOn(cpu::ActiveTable(), spec(), what, count, {7, 3}, residual.data());
    const Floats decoded = DecodeOn(cpu::ActiveTable(), spec(), coded, count);
    const Floats result(count, std::nanf(""));
    TakeBack(spec(), what, decoded.data(), result.data(), static_cast<int64_t>(count),
             residual.data());
    for (size_t i = 0; i < count; ++i) ASSERT_LT(std::fabs(residual[i]), 2) << i;
  }
}

TEST_P(EveryCodec, TheSizeIsSmallEnough) {
  const int64_t count = 1 << 20;
  EXPECT_GE(4.0 * count / static_cast<double>(EncodedBytes(spec(), count)), GetParam().at_least);
  EXPECT_EQ(EncodedBytes(spec(), 0), 0);
}

TEST_P(EveryCodec, APartThatBeginsWithABlockHasTheBytesThatItHasInTheWhole) {
  const size_t count = 6 * block() + 5;
  const Floats values = Normal(count, 3);
  const Coded whole =
      EncodeOn(cpu::ActiveTable(), spec(), {values.data(), nullptr, 1}, count, {11, 0});
  for (const size_t skipped : {size_t{1}, size_t{4}, size_t{6}}) {
    const size_t at = skipped * block();
    const Coded part = EncodeOn(cpu::ActiveTable(), spec(), {values.data() + at, nullptr, 1},
                                count - at, {11, static_cast<int64_t>(skipped)});
    const auto from = static_cast<size_t>(EncodedBytes(spec(), static_cast<int64_t>(at)));
    EXPECT_EQ(part, Coded(whole.begin() + static_cast<long>(from), whole.end())) << skipped;
  }
}

TEST_P(EveryCodec, DecodeAddAddsWhatDecodeWrites) {
  const size_t count = 3 * block() + 21;
  const Floats values = Normal(count, 4);
  const Floats before = Normal(count, 5);
  for (const cpu::KernelTable* table : cpu::SupportedTables()) {
    const Coded coded = EncodeOn(*table, spec(), {values.data(), nullptr, 1}, count);
    const Floats decoded = DecodeOn(*table, spec(), coded, count);
    Floats sum = before;
    cpu::Decode(*table, spec(), coded.data(), static_cast<int64_t>(count), sum.data(), true);
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(sum[i], before[i] + decoded[i]) << i;
  }
}

TEST_P(EveryCodec, ABlockThatIsNotFiniteDecodesToNansAndTheOthersDoNot) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    // In a whole block and in a short last one.
    for (const size_t place : {block() + 3, 2 * block() + 1}) {
      Floats values = Normal(2 * block() + 9, 6);
      values[place] = bad;
      const Floats back = ThereAndBack(spec(), values);
      for (size_t i = 0; i < values.size(); ++i)
        ASSERT_EQ(std::isnan(back[i]), i / block() == place / block()) << i;
    }
  }
}

TEST_P(EveryCodec, ZerosStayZerosExceptTheirSign) {
  for (const float back : ThereAndBack(spec(), Floats(2 * block() + 3))) ASSERT_EQ(back, 0);
}

TEST_P(EveryCodec, TinyAndHugeElementsStayFinite) {
  for (const float size : {1e-44F, 1e-38F, 1e-30F, 1e30F}) {
    for (const float back : ThereAndBack(spec(), Normal(block() + 40, 7, size)))
      ASSERT_TRUE(std::isfinite(back)) << size;
  }
}

// Also where the sum of a block is no float any more.
TEST_P(EveryCodec, TheGreatestElementsStayFiniteWithTheSameBytesOnEveryInstructionSet) {
  for (const float size : {1e36F, 1e38F, 3.4e38F}) {
    for (const size_t count : {block(), 2 * block() + 40, size_t{7}}) {
      Floats values(count, size);
      for (size_t i = 0; i < count; i += 3) values[i] = -size;
      const Encoded what{values.data(), nullptr, 1};
      const Coded expected = EncodeOn(*cpu::SupportedTables().front(), spec(), what, count, {7, 3});
      for (const cpu::KernelTable* table : cpu::SupportedTables())
        ASSERT_EQ(EncodeOn(*table, spec(), what, count, {7, 3}), expected) << table->name;
      for (const float back : ThereAndBack(spec(), values))
        ASSERT_TRUE(std::isfinite(back)) << size << " " << count;
    }
  }
}

// sum_t C(p_t) + e_T == sum_t g_t, up to the rounding of the sums themselves.
TEST_P(EveryCodec, ErrorFeedbackTelescopes) {
  const size_t count = 2 * block() + 100;
  std::vector<double> sent(count), wanted(count);
  Floats residual(count);
  constexpr int kSteps = 50;
  for (unsigned t = 0; t < kSteps; ++t) {
    const Floats gradient = Normal(count, 100 + t);
    const Coded coded =
        EncodeOn(cpu::ActiveTable(), spec(), {gradient.data(), residual.data(), 1}, count, {t, 0});
    const Floats decoded = DecodeOn(cpu::ActiveTable(), spec(), coded, count);
    for (size_t i = 0; i < count; ++i) {
      residual[i] = gradient[i] + residual[i] - decoded[i];
      sent[i] += decoded[i];
      wanted[i] += gradient[i];
    }
  }
  for (size_t i = 0; i < count; ++i) {
    // A float of this size is rounded by 2^-24 of itself, three times a step.
    const double rounding = 3.0 * kSteps * 0x1p-24 * (10 + std::fabs(residual[i]));
    ASSERT_NEAR(sent[i] + residual[i], wanted[i], rounding) << i;
  }
}

TEST(CodecSpecTest, SaysItsParameterAndChecksIt) {
  EXPECT_EQ(ToString(CodecSpec{Codec::kInt8, 0}), "int8");
  EXPECT_EQ(ToString(CodecSpec{Codec::kTernary, 2.5}), "ternary(clip=2.5)");
  EXPECT_TRUE(IsValid({Codec::kQsgd, 127}));
  EXPECT_FALSE(IsValid({Codec::kQsgd, 128}));
  EXPECT_FALSE(IsValid({Codec::kThreshold, -1}));
  EXPECT_FALSE(IsValid({Codec::kThreshold, std::nan("")}));
  EXPECT_FALSE(IsValid({Codec::kInt8, 1}));
}

}  // namespace
}  // namespace hvdlite::kernels
