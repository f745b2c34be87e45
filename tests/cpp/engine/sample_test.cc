// Digests of samples of results, alone and through whole engines.
#include "engine/execute/sample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "testing/ranks.h"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace hvdlite::testing {
namespace {

using engine::DigestOfSample;

comm::Batch BatchOf(std::vector<float>* values) {
  comm::Batch batch;
  batch.kind = OpKind::kAllreduce;
  batch.dtype = DType::kFloat32;
  comm::Piece piece;
  piece.output = values->data();
  piece.count = static_cast<int64_t>(values->size());
  batch.pieces.push_back(piece);
  return batch;
}

TEST(SampleTest, IsOfAllreducesInHostMemory) {
  std::vector<float> values(10, 1);
  comm::Batch batch = BatchOf(&values);
  EXPECT_TRUE(DigestOfSample(batch, 0).has_value());
  batch.kind = OpKind::kReducescatter;
  EXPECT_FALSE(DigestOfSample(batch, 0).has_value());
  batch = BatchOf(&values);
  batch.device = {DeviceKind::kCuda, 0};
  EXPECT_FALSE(DigestOfSample(batch, 0).has_value());
  values.clear();
  EXPECT_FALSE(DigestOfSample(BatchOf(&values), 0).has_value());
}

TEST(SampleTest, MovesThroughATensorAndThroughABatch) {
  std::vector<float> first(2000), second(300);
  std::iota(first.begin(), first.end(), 1.0F);
  comm::Batch batch = BatchOf(&first);
  batch.pieces.push_back(BatchOf(&second).pieces[0]);
  std::set<uint64_t> seen;
  bool begins = false, ends = false;
  for (uint64_t number = 0; number < 2000; ++number) {
    const std::optional<uint64_t> digest = DigestOfSample(batch, number);
    seen.insert(*digest);
    first.front() += 1;
    begins |= DigestOfSample(batch, number) != digest;
    first.front() -= 1;
    first.back() += 1;
    ends |= DigestOfSample(batch, number) != digest;
    first.back() -= 1;
  }
  EXPECT_GT(seen.size(), 50u);
  EXPECT_TRUE(begins);
  EXPECT_GT(first.size() * 4, 1024u);
  EXPECT_TRUE(ends);
}

TEST(SampleTest, DoesNotTellOneNanFromAnother) {
  std::vector<float> values(10, 1);
  values[3] = std::numeric_limits<float>::quiet_NaN();
  const std::optional<uint64_t> one = DigestOfSample(BatchOf(&values), 0);
  values[3] = -values[3];
  EXPECT_EQ(DigestOfSample(BatchOf(&values), 0), one);
  values[3] = std::numeric_limits<float>::infinity();
  EXPECT_NE(DigestOfSample(BatchOf(&values), 0), one);
}

TEST(EngineResults, ThatAreAlikeRaiseNoAlarm) {
  for (const int hosts : {1, 2}) {
    RanksOptions options{.size = 3, .hosts = hosts};
    options.config.drift = "error";
    RunRanks(options, [](Rank& me) {
      std::vector<float> small(7), large(20000);
      for (int i = 0; i < 600; ++i) {
        small.assign(small.size(), static_cast<float>(i) / 3);
        if (i % 50 == 0) small[0] = std::nanf(me.rank == 0 ? "1" : "2");
        ASSERT_TRUE(me.Do(Allreduce("small", small, &small)).ok());
        large.assign(large.size(), 1.0F / static_cast<float>(i + 1));
        ASSERT_TRUE(me.Do(Allreduce("large", large, &large, ReduceOp::kAverage)).ok());
        if (me.rank == 2 && i == 300) break;
      }
      ASSERT_TRUE(me.Do(Join()).ok());
    });
  }
}

#if defined(__SSE__)
// A rank whose thread flushes subnormal numbers to zero: what it adds up itself differs.
TEST(EngineResults, ThatDifferEndTheJobAndNameTheRank) {
  RanksOptions options{.size = 3, .shutdown = false};
  options.config.drift = "error";
  RunRanks(options, [](Rank& me) {
    if (me.rank == 1) _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
    std::vector<float> tiny(64);
    Status status;
    while (status.ok()) {
      tiny.assign(tiny.size(), 1e-40F);
      status = me.Do(Allreduce("tiny", tiny, &tiny));
    }
    EXPECT_EQ(status.code(), StatusCode::kInternal);
    EXPECT_EQ(status.message().find("rank 1 has another result than the other 2 ranks of "
                                    "allreduce 'tiny'."),
              0u)
        << status.message();
    _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_OFF);
  });
}
#endif

}  // namespace
}  // namespace hvdlite::testing
