#include "kernels/reduce.h"

#include <gtest/gtest.h>

#include <bit>
#include <string>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/reduce.h"
#include "kernels/reference.h"

namespace hvdlite::kernels {
namespace {

using reference::Bytes;

constexpr int64_t kLengths[] = {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 1000, 4097};
constexpr ReduceOp kOps[] = {ReduceOp::kAverage, ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax,
                             ReduceOp::kProduct};

struct Factors {
  double prescale, divisor, postscale;
};
// None; one at a time; a power of two and not; all together; and such as leave the range of
// integers.
constexpr Factors kFactors[] = {{1, 1, 1},       {1, 4, 1},    {1, 3, 1},          {0.5, 1, 1},
                                {1, 1, 1.0 / 3}, {0.3, 7, 11}, {-1e4, 0.125, 1e16}};

// Elements in the middle of guard bytes, `shift` elements away from where a vector would like to
// begin.
class Buffer {
 public:
  Buffer(DType dtype, int64_t count, int shift)
      : offset_(kGuard + static_cast<size_t>(shift) * SizeOf(dtype)),
        size_(static_cast<size_t>(count) * SizeOf(dtype)),
        bytes_(offset_ + size_ + kGuard, kMark) {}

  uint8_t* data() { return bytes_.data() + offset_; }
  bool GuardsIntact() const {
    for (size_t i = 0; i < bytes_.size(); ++i) {
      if ((i < offset_ || i >= offset_ + size_) && bytes_[i] != kMark) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr uint8_t kMark = 0xa5;
  size_t offset_, size_;
  Bytes bytes_;
};

// Where results go: into memory of their own, or over one of the sources.
enum class Target { kOwn, kFirstSource, kLastSource, kNone };

struct Case {
  ReduceSpec spec;
  int64_t count;
  int n;
  Target destination, second;
  int shift;

  std::string Describe() const {
    return std::string(Name(spec.dtype)) + ' ' + std::string(Name(spec.op)) +
           " n=" + std::to_string(n) + " count=" + std::to_string(count) +
           " factors=" + std::to_string(spec.prescale) + ',' + std::to_string(spec.divisor) + ',' +
           std::to_string(spec.postscale) +
           " targets=" + std::to_string(static_cast<int>(destination)) + ',' +
           std::to_string(static_cast<int>(second)) + " shift=" + std::to_string(shift);
  }
};

void Check(const Case& c, const std::vector<Bytes>& contents, const Bytes& expected,
           const cpu::KernelTable& table) {
  std::vector<Buffer> sources;
  std::vector<const void*> pointers;
  for (int k = 0; k < c.n; ++k)
    sources.emplace_back(c.spec.dtype, c.count, (c.shift * (k + 1)) % 7);
  for (int k = 0; k < c.n; ++k) {
    const Bytes& content = contents[static_cast<size_t>(k)];
    std::copy(content.begin(), content.end(), sources[static_cast<size_t>(k)].data());
    pointers.push_back(sources[static_cast<size_t>(k)].data());
  }
  Buffer own(c.spec.dtype, c.count, c.shift), own_second(c.spec.dtype, c.count, 2 * c.shift);
  const auto place = [&](Target target, Buffer& mine) -> uint8_t* {
    switch (target) {
      case Target::kOwn: return mine.data();
      case Target::kFirstSource: return sources.front().data();
      case Target::kLastSource: return sources.back().data();
      case Target::kNone: break;
    }
    return nullptr;
  };
  uint8_t* const destination = place(c.destination, own);
  uint8_t* const second = place(c.second, own_second);

  cpu::Reduce(table, c.spec, destination, second, pointers.data(), c.n, c.count);

  for (const uint8_t* result :
       {static_cast<const uint8_t*>(destination), static_cast<const uint8_t*>(second)}) {
    if (result == nullptr) continue;
    const int64_t at = reference::FirstDifference(c.spec.dtype, result, expected.data(), c.count);
    ASSERT_EQ(at, -1) << table.name << ' ' << c.Describe();
  }
  for (int k = 0; k < c.n; ++k) {
    Buffer& source = sources[static_cast<size_t>(k)];
    ASSERT_TRUE(source.GuardsIntact()) << table.name << ' ' << c.Describe();
    if (source.data() == destination || source.data() == second) continue;
    const Bytes& content = contents[static_cast<size_t>(k)];
    ASSERT_TRUE(std::equal(content.begin(), content.end(), source.data()))
        << "a source changed " << c.Describe();
  }
  ASSERT_TRUE(own.GuardsIntact() && own_second.GuardsIntact()) << table.name << ' ' << c.Describe();
}

class ReduceTest : public ::testing::TestWithParam<DType> {};

TEST_P(ReduceTest, EveryInstructionSetGivesTheReferencesBits) {
  constexpr Target kTargets[] = {Target::kOwn, Target::kFirstSource, Target::kLastSource};
  constexpr Target kSeconds[] = {Target::kNone, Target::kOwn, Target::kLastSource,
                                 Target::kFirstSource};
  reference::Filler filler(11);
  int turn = 0;
  for (const ReduceOp op : kOps) {
    for (const int64_t count : kLengths) {
      for (int n = 1; n <= 5; ++n) {
        std::vector<Bytes> contents(static_cast<size_t>(n));
        std::vector<const uint8_t*> pointers;
        for (Bytes& content : contents) {
          content.resize(static_cast<size_t>(count) * SizeOf(GetParam()));
          filler.Fill(GetParam(), content.data(), count);
          pointers.push_back(content.data());
        }
        for (const Factors& f : kFactors) {
          const ReduceSpec spec = {GetParam(), op, f.prescale, f.postscale, f.divisor};
          const Bytes expected = reference::Reduce(spec, pointers, count);
          // Targets and shifts take turns (coprime periods) instead of multiplying the number of
          // cases.
          ++turn;
          Case c = {spec, count, n, kTargets[turn % 3], kSeconds[turn % 4], turn % 5};
          if (c.destination == c.second || n == 1) c.second = Target::kOwn;
          for (const cpu::KernelTable* table : cpu::SupportedTables()) {
            ASSERT_NO_FATAL_FAILURE(Check(c, contents, expected, *table));
          }
        }
      }
    }
  }
}

TEST_P(ReduceTest, ManySourcesAreAddedInOrder) {
  constexpr int kSources = 33;
  constexpr int64_t kCount = 517;
  reference::Filler filler(5);
  std::vector<Bytes> contents(kSources, Bytes(kCount * SizeOf(GetParam())));
  std::vector<const uint8_t*> pointers;
  for (Bytes& content : contents) {
    filler.Fill(GetParam(), content.data(), kCount);
    pointers.push_back(content.data());
  }
  const ReduceSpec spec = {GetParam(), ReduceOp::kAverage, 1.0, 1.0, kSources};
  const Bytes expected = reference::Reduce(spec, pointers, kCount);
  const Case c = {spec, kCount, kSources, Target::kOwn, Target::kLastSource, 1};
  for (const cpu::KernelTable* table : cpu::SupportedTables()) Check(c, contents, expected, *table);
}

TEST_P(ReduceTest, FinishIsWhatReduceDoesAtTheEnd) {
  reference::Filler filler(9);
  for (const Factors& f : kFactors) {
    for (const int64_t count : kLengths) {
      Bytes data(static_cast<size_t>(count) * SizeOf(GetParam()));
      filler.Fill(GetParam(), data.data(), count);
      const ReduceSpec finish = {GetParam(), ReduceOp::kAverage, 123.0, f.postscale, f.divisor};
      const ReduceSpec no_prescale = {GetParam(), ReduceOp::kSum, 1.0, f.postscale, f.divisor};
      Bytes expected = reference::Reduce(no_prescale, {data.data()}, count);
      if (GetParam() == DType::kBool) expected = data;  // never scaled, so never touched
      for (const cpu::KernelTable* table : cpu::SupportedTables()) {
        Bytes result = data;
        cpu::Finish(*table, finish, result.data(), count);
        ASSERT_EQ(reference::FirstDifference(GetParam(), result.data(), expected.data(), count), -1)
            << table->name;

        Bytes scaled = data;
        cpu::Scale(*table, GetParam(), scaled.data(), count, f.postscale);
        Bytes scaled_expected =
            reference::Reduce({GetParam(), ReduceOp::kSum, 1.0, f.postscale}, {data.data()}, count);
        if (GetParam() == DType::kBool) scaled_expected = data;
        ASSERT_EQ(
            reference::FirstDifference(GetParam(), scaled.data(), scaled_expected.data(), count),
            -1)
            << table->name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllDTypes, ReduceTest,
                         ::testing::Values(DType::kBool, DType::kUInt8, DType::kInt8,
                                           DType::kUInt16, DType::kInt16, DType::kUInt32,
                                           DType::kInt32, DType::kUInt64, DType::kInt64,
                                           DType::kFloat16, DType::kBFloat16, DType::kFloat32,
                                           DType::kFloat64),
                         [](const auto& parameter) { return std::string(Name(parameter.param)); });

TEST(ReduceFactsTest, AverageOfFloatsDividesTrulyAndOnce) {
  // 1/49 is not representable, and 49 * (1/49) != 1 in float32: a multiplication by the reciprocal
  // would show.
  const float values[1] = {49.0f};
  const void* sources[1] = {values};
  float result = 0;
  Reduce({DType::kFloat32, ReduceOp::kAverage, 1.0, 1.0, 49.0}, &result, nullptr, sources, 1, 1);
  EXPECT_EQ(result, 1.0f);
}

TEST(ReduceFactsTest, HalvesAreSummedInFloatAndRoundedOnce) {
  const uint16_t big = 0x6800, one = 0x3c00,
                 minus_big = 0xe800;  // 2048, 1, -2048: 2048 + 1 is no float16
  const void* sources[3] = {&big, &one, &minus_big};
  uint16_t result = 0;
  Reduce({DType::kFloat16, ReduceOp::kSum}, &result, nullptr, sources, 3, 1);
  EXPECT_EQ(result, one);
}

TEST(ReduceFactsTest, HalvesReducedToFloatAreThoseOfFloat32AndRoundedLaterTheyAreTheReduction) {
  reference::Filler filler(17);
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (const ReduceOp op : kOps) {
      for (const int64_t count : kLengths) {
        const auto elements = static_cast<size_t>(count);
        std::vector<Bytes> halves(3, Bytes(elements * SizeOf(dtype))),
            floats(3, Bytes(elements * sizeof(float)));
        std::vector<const uint8_t*> half_sources, float_sources;
        std::vector<const void*> sources;
        for (size_t k = 0; k < halves.size(); ++k) {
          filler.Fill(dtype, halves[k].data(), count);
          for (size_t i = 0; i < elements; ++i) {
            const auto bits =
                reference::ElementAt<uint16_t>(halves[k].data(), static_cast<int64_t>(i));
            const float value = dtype == DType::kFloat16 ? reference::Half::Decode(bits)
                                                         : reference::Brain::Decode(bits);
            std::memcpy(floats[k].data() + i * sizeof(float), &value, sizeof(float));
          }
          half_sources.push_back(halves[k].data());
          float_sources.push_back(floats[k].data());
          sources.push_back(halves[k].data());
        }
        for (const Factors& f : kFactors) {
          const ReduceSpec spec = {dtype, op, f.prescale, f.postscale, f.divisor};
          ReduceSpec of_floats = spec;
          of_floats.dtype = DType::kFloat32;
          const Bytes wide = reference::Reduce(of_floats, float_sources, count);
          const Bytes rounded = reference::Reduce(spec, half_sources, count);
          for (const cpu::KernelTable* table : cpu::SupportedTables()) {
            Buffer sums(DType::kFloat32, count, 1), result(dtype, count, 3);
            auto* const values = reinterpret_cast<float*>(sums.data());
            cpu::ReduceToFloat(*table, spec, values, sources.data(), 3, count);
            ASSERT_EQ(reference::FirstDifference(DType::kFloat32, sums.data(), wide.data(), count),
                      -1)
                << table->name << ' ' << Name(dtype) << ' ' << Name(op) << " count=" << count;
            cpu::RoundFromFloat(*table, dtype, result.data(), values, count);
            ASSERT_EQ(reference::FirstDifference(dtype, result.data(), rounded.data(), count), -1)
                << table->name << ' ' << Name(dtype) << ' ' << Name(op) << " count=" << count;
            ASSERT_TRUE(sums.GuardsIntact() && result.GuardsIntact());
          }
        }
      }
    }
  }
}

TEST(ReduceFactsTest, ANanWhosePayloadIsFullStaysANanWhenItIsRounded) {
  const std::vector<float> full(40, std::bit_cast<float>(0x7fffffffu));
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (const cpu::KernelTable* table : cpu::SupportedTables()) {
      Bytes result(full.size() * SizeOf(dtype));
      cpu::RoundFromFloat(*table, dtype, result.data(), full.data(),
                          static_cast<int64_t>(full.size()));
      for (int i = 0; i < 40; ++i)
        ASSERT_TRUE(reference::IsNanAt(dtype, result.data(), i)) << table->name;
    }
  }
}

TEST(ReduceFactsTest, NanWinsInMinAndMaxFromEitherSide) {
  const float values[4] = {NAN, 1.0f, 1.0f, NAN};
  for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
    const void* sources[2] = {values, values + 2};
    float result[2] = {};
    Reduce({DType::kFloat32, op}, result, nullptr, sources, 2, 2);
    EXPECT_TRUE(std::isnan(result[0]) && std::isnan(result[1])) << Name(op);
  }
}

TEST(ReduceFactsTest, AFactorThatIsNanMakesEveryElementNan) {
  // All payload: rounding it up would overflow.
  const double nan = std::bit_cast<double>(0x7fffffffffffffffu);
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    for (const cpu::KernelTable* table : cpu::SupportedTables()) {
      for (const ReduceSpec& spec :
           {ReduceSpec{dtype, ReduceOp::kSum, nan}, ReduceSpec{dtype, ReduceOp::kSum, 1, nan},
            ReduceSpec{dtype, ReduceOp::kSum, 1, 1, nan}}) {
        Bytes data(100 * SizeOf(dtype));
        const void* sources[1] = {data.data()};
        cpu::Reduce(*table, spec, data.data(), nullptr, sources, 1, 100);
        for (int i = 0; i < 100; ++i)
          ASSERT_TRUE(reference::IsNanAt(dtype, data.data(), i)) << Name(dtype);
      }
    }
  }
}

TEST(ReduceFactsTest, IntegersWrapInSumsAndSaturateInScaling) {
  const uint8_t values[2] = {200, 100};
  const void* sources[2] = {values, values + 1};
  uint8_t result = 0;
  Reduce({DType::kUInt8, ReduceOp::kSum}, &result, nullptr, sources, 2, 1);
  EXPECT_EQ(result, 44);
  Scale(DType::kUInt8, &result, 1, 100.0);
  EXPECT_EQ(result, 255);
  Scale(DType::kUInt8, &result, 1, -1.0);
  EXPECT_EQ(result, 0);
}

TEST(ReduceFactsTest, Int64BeyondTheDoublesIsExactWhileNothingScales) {
  const int64_t values[2] = {(int64_t{1} << 62) + 1, 2};
  const void* sources[2] = {values, values + 1};
  int64_t result = 0;
  Reduce({DType::kInt64, ReduceOp::kAverage, 1.0, 1.0, 1.0}, &result, nullptr, sources, 2, 1);
  EXPECT_EQ(result, (int64_t{1} << 62) + 3);
}

TEST(ReduceFactsTest, TheActiveInstructionSetIsTheLastSupportedOne) {
  EXPECT_STREQ(SimdName(), cpu::SupportedTables().back()->name);
}

}  // namespace
}  // namespace hvdlite::kernels
