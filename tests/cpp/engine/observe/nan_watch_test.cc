// NanWatch: which number it finds, and which rank speaks.
#include "engine/observe/nan_watch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "engine/entry.h"
#include "engine/list.h"

namespace hvdlite::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(FirstNotFiniteTest, FindsNansAndInfinitiesOfEveryFloat) {
  struct Case {
    DType dtype;
    size_t bytes;
    std::vector<uint64_t> finite, not_finite;
  };
  const Case cases[] = {
      {DType::kFloat16, 2, {0, 0x8000, 0x7BFF, 0x0001}, {0x7C00, 0xFC00, 0x7E00, 0xFC01}},
      {DType::kBFloat16, 2, {0, 0x8000, 0x7F7F, 0x0001}, {0x7F80, 0xFF80, 0x7FC0, 0xFF81}},
      {DType::kFloat32, 4, {0, 0x80000000, 0x7F7FFFFF, 1}, {0x7F800000, 0xFF800000, 0x7FC00000}},
      {DType::kFloat64,
       8,
       {0, 0x7FEFFFFFFFFFFFFF, 1},
       {0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000001}},
  };
  for (const Case& c : cases) {
    for (const int64_t count : {1, 5, 1024, 1025, 5000}) {
      std::vector<char> data(static_cast<size_t>(count) * c.bytes);
      for (int64_t i = 0; i < count; ++i) {
        const uint64_t bits = c.finite[static_cast<size_t>(i) % c.finite.size()];
        std::memcpy(data.data() + static_cast<size_t>(i) * c.bytes, &bits, c.bytes);
      }
      EXPECT_EQ(FirstNotFinite(c.dtype, data.data(), count), count);
      for (const int64_t at : {count - 1, count / 2, int64_t{0}}) {
        const uint64_t bits = c.not_finite[static_cast<size_t>(at) % c.not_finite.size()];
        std::memcpy(data.data() + static_cast<size_t>(at) * c.bytes, &bits, c.bytes);
        EXPECT_EQ(FirstNotFinite(c.dtype, data.data(), count), at);
      }
    }
  }
  const std::vector<uint32_t> ones(10, ~uint32_t{0});
  EXPECT_EQ(FirstNotFinite(DType::kInt32, ones.data(), 10), 10);
}

// One allreduce of four floats.
struct One {
  explicit One(float last) : values{1, 2, 3, last} {
    entry.request.name = "allreduce.layer3";
    entry.request.dtype = DType::kFloat32;
    entry.input.data = entry.output.data = values.data();
    entry.input.dtype = entry.output.dtype = DType::kFloat32;
    entry.input.shape = entry.output.shape = {4};
    running.batch.kind = OpKind::kAllreduce;
    running.batch.dtype = DType::kFloat32;
    running.entries = {nullptr, &entry};
  }
  std::vector<float> values;
  Entry entry;
  Running running;
};

TEST(NanWatchTest, TellsOfTheFirstNumberOnce) {
  NanWatch watch(/*on=*/true, /*rank=*/2);
  EXPECT_EQ(watch.Began(One(4).running), "");
  const std::string said = watch.Began(One(std::nanf("")).running);
  EXPECT_EQ(said.find("rank 2 is the first to submit a NaN or an infinity: element 3 of 4 of "
                      "allreduce 'layer3'."),
            0u)
      << said;
  EXPECT_EQ(watch.Began(One(kInfinity).running), "");
  NanWatch another(true, 0);
  EXPECT_NE(another.Began(One(-kInfinity).running), "");
}

TEST(NanWatchTest, NamesTheTensorOfAList) {
  const float infinite = kInfinity;
  One one(4);
  const Shape first{4}, second{1};
  one.entry.request.name = "grouped_allreduce.g";
  AddToList(first.data(), 1, &one.entry.request);
  AddToList(second.data(), 1, &one.entry.request);
  one.entry.list = {{one.values.data(), one.values.data()}, {&infinite, one.values.data()}};
  NanWatch watch(true, 0);
  const std::string said = watch.Began(one.running);
  EXPECT_NE(said.find("element 0 of 1 of allreduce 'g_2of2'."), std::string::npos) << said;
}

TEST(NanWatchTest, IsSilentAfterAResultOfAnotherRank) {
  NanWatch watch(true, 0);
  watch.Ended(One(1).running);
  watch.Ended(One(kInfinity).running);
  EXPECT_EQ(watch.Began(One(kInfinity).running), "");
}

TEST(NanWatchTest, CanBeOff) {
  EXPECT_EQ(NanWatch(false, 0).Began(One(kInfinity).running), "");
}

}  // namespace
}  // namespace hvdlite::engine
