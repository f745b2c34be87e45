// Adasum on a GPU against kernels/adasum.h. The dots are added in another order, so they are near,
// not equal; with the same dots the combination has the same bits.
#include <cstring>

#include "kernels/adasum.h"
#include "kernels/gpu.h"
#include "kernels/gpu/on_gpu.h"
#include "kernels/random.h"

namespace hvdlite::kernels {
namespace {

constexpr DType kTypes[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};

using reference::Random;

constexpr size_t kRubbishBytes = 16;

struct Vectors {
  Bytes a, b;
  uint8_t *at_a, *at_b;
  int64_t elements;
};

class GpuAdasumTest : public OnGpu {
 protected:
  // `past`: how many elements the vectors begin past a boundary, b by one more.
  Vectors Make(DType dtype, int64_t elements, int past) {
    Vectors v{Random(dtype, elements, ++seed_), Random(dtype, elements, ++seed_), nullptr, nullptr,
              elements};
    const size_t gap = static_cast<size_t>(past) * SizeOf(dtype),
                 gap_b = past == 0 ? 0 : gap + SizeOf(dtype);
    v.at_a = Upload(Shifted(v.a, gap)) + gap;
    v.at_b = Upload(Shifted(v.b, gap_b)) + gap_b;
    return v;
  }
  std::vector<AdasumDots> Dots(DType dtype, const std::vector<Pair>& pairs) {
    AdasumDots* const dots =
        reinterpret_cast<AdasumDots*>(Upload(Bytes(pairs.size() * sizeof(AdasumDots), 0xff)));
    size_t room = 0;
    for (const Pair& pair : pairs) room += static_cast<size_t>(pair.elements) * SizeOf(dtype);
    const Bytes there(AdasumRoom(pairs.size(), room) + kRubbishBytes, kRubbish);
    uint8_t* const sums = Upload(there);
    Check(AdasumDotAll(gpu_.get(), dtype, pairs, dots, sums));
    EXPECT_EQ(Download(sums + there.size() - kRubbishBytes, kRubbishBytes),
              Bytes(kRubbishBytes, kRubbish));
    const Bytes bytes = Download(dots, pairs.size() * sizeof(AdasumDots));
    std::vector<AdasumDots> result(pairs.size());
    std::memcpy(result.data(), bytes.data(), bytes.size());
    return result;
  }

 private:
  // Before and behind it are large numbers of every type.
  static Bytes Shifted(const Bytes& bytes, size_t gap) {
    Bytes result(gap, kRubbish);
    result.insert(result.end(), bytes.begin(), bytes.end());
    result.insert(result.end(), kRubbishBytes, kRubbish);
    return result;
  }
  unsigned seed_ = 0;
};

TEST_F(GpuAdasumTest, DotsAreThoseOfTheProcessorButForRounding) {
  for (const DType dtype : kTypes) {
    std::vector<Vectors> all;
    std::vector<Pair> pairs;
    for (int i = 0; i < 150; ++i) all.push_back(Make(dtype, i % 5 == 0 ? 0 : 37 * i % 101, i % 3));
    for (const int64_t elements : {16383, 16384, 40000}) all.push_back(Make(dtype, elements, 1));
    for (const Vectors& v : all) pairs.push_back({v.at_a, v.at_b, v.elements});
    const std::vector<AdasumDots> dots = Dots(dtype, pairs);
    for (size_t i = 0; i < all.size(); ++i) {
      const AdasumDots want = AdasumDot(dtype, all[i].a.data(), all[i].b.data(), all[i].elements);
      const double tolerance = 1e-13 * (want.aa + want.bb);
      ASSERT_NEAR(dots[i].ab, want.ab, tolerance) << Name(dtype) << ' ' << all[i].elements;
      ASSERT_NEAR(dots[i].aa, want.aa, tolerance) << Name(dtype) << ' ' << all[i].elements;
      ASSERT_NEAR(dots[i].bb, want.bb, tolerance) << Name(dtype) << ' ' << all[i].elements;
    }
  }
}

TEST_F(GpuAdasumTest, DotsDoNotDependOnAlignment) {
  for (const DType dtype : kTypes) {
    const Bytes a = Random(dtype, 30'001, 1), b = Random(dtype, 30'001, 2);
    std::vector<Pair> pairs;
    for (const size_t past : {0u, 1u}) {
      Bytes shifted(past * SizeOf(dtype), 0);
      shifted.insert(shifted.end(), a.begin(), a.end());
      pairs.push_back({Upload(shifted) + past * SizeOf(dtype), Upload(b), 30'001});
    }
    const std::vector<AdasumDots> dots = Dots(dtype, pairs);
    EXPECT_EQ(std::memcmp(&dots[0], &dots[1], sizeof(AdasumDots)), 0) << Name(dtype);
  }
}

TEST_F(GpuAdasumTest, TheCombinationIntoTheOtherVectorHasTheSameBits) {
  for (const DType dtype : kTypes) {
    const Vectors v = Make(dtype, 20'000, 1), w{v.a, v.b, Upload(v.a), Upload(v.b), v.elements};
    const AdasumDots dots = AdasumDot(dtype, v.a.data(), v.b.data(), v.elements);
    Bytes raw(sizeof(dots));
    std::memcpy(raw.data(), &dots, sizeof(dots));
    const auto* there = reinterpret_cast<const AdasumDots*>(Upload(raw));
    Check(AdasumCombineAll(gpu_.get(), dtype, {{v.at_a, v.at_b, v.elements}}, there, false));
    Check(AdasumCombineAll(gpu_.get(), dtype, {{w.at_b, w.at_a, w.elements}}, there, true));
    EXPECT_EQ(Download(v.at_a, v.a.size()), Download(w.at_b, w.b.size())) << Name(dtype);
  }
}

TEST_F(GpuAdasumTest, WithTheSameDotsTheCombinationHasTheSameBits) {
  for (const DType dtype : kTypes) {
    std::vector<Vectors> all;
    std::vector<Pair> pairs;
    std::vector<AdasumDots> dots;
    for (const int64_t elements : {0, 1, 2, 7, 8, 9, 100, 16384, 16389, 40000}) {
      for (const int past : {0, 1, 2}) all.push_back(Make(dtype, elements, past));
    }
    for (const Vectors& v : all) {
      pairs.push_back({v.at_a, v.at_b, v.elements});
      dots.push_back(AdasumDot(dtype, v.a.data(), v.b.data(), v.elements));
    }
    dots.back().aa = 0.0;  // too short to mean anything: its coefficient is 1
    Bytes raw(dots.size() * sizeof(AdasumDots));
    std::memcpy(raw.data(), dots.data(), raw.size());
    Check(AdasumCombineAll(gpu_.get(), dtype, pairs,
                           reinterpret_cast<const AdasumDots*>(Upload(raw)), false));
    for (size_t i = 0; i < all.size(); ++i) {
      Bytes want = all[i].a;
      AdasumCombine(dtype, want.data(), all[i].b.data(), all[i].elements, dots[i]);
      want.insert(want.end(), kRubbishBytes, kRubbish);
      ASSERT_EQ(Download(all[i].at_a, want.size()), want) << Name(dtype) << ' ' << all[i].elements;
    }
  }
}

}  // namespace
}  // namespace hvdlite::kernels
