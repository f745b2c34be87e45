// Results on (fake) GPUs that the engine writes into memory of the caller's.
#include "fake_gpu/fake_nccl.h"
#include "testing/gpu_rank.h"

namespace hvdlite::testing {
namespace {

using Floats = std::vector<float>;

class EngineGpuOutput : public ::testing::TestWithParam<const char*> {
 protected:
  EngineGpuOutput() { fake_cuda_set("devices", 4); }
  RanksOptions Options() const {
    Config config = GpuConfig(GetParam());
    config.gpu_chunk_bytes = 4096;
    return {.size = 3, .config = config};
  }
  FakeCuda cuda;
};
INSTANTIATE_TEST_SUITE_P(, EngineGpuOutput, ::testing::Values("stage", "nccl"),
                         [](const auto& way) { return std::string(way.param); });

TEST_P(EngineGpuOutput, is_written_and_the_engine_allocates_nothing) {
  RunRanks(Options(), [&](Rank& me) {
    GpuRank mine(&me, &cuda, me.rank);
    const float r = static_cast<float>(me.rank);
    for (const int64_t rows : {1, 3000}) {
      const std::string n = "." + std::to_string(rows);
      HandlePtr handle;
      // One row more from each rank than from the one before it.
      Floats expected;
      for (int from = 0; from < 3; ++from) {
        const Floats theirs = Count(rows + from, static_cast<float>(from));
        expected.insert(expected.end(), theirs.begin(), theirs.end());
      }
      TensorView out = mine.Put(Floats(expected.size(), -1));
      ASSERT_TRUE(mine.Do(mine.Ask(OpKind::kAllgather, "gathered" + n,
                                   mine.Put(Count(rows + me.rank, r)), out),
                          &handle)
                      .ok());
      EXPECT_EQ(mine.Get<float>(out), expected);
      EXPECT_EQ(handle->memory(), nullptr);

      // In place: the input is this rank's rows of the output.
      Floats whole(static_cast<size_t>(3 * rows), -1);
      std::fill_n(whole.begin() + me.rank * rows, rows, r);
      out = mine.Put(whole);
      TensorView in = out;
      in.shape = {rows};
      in.data = static_cast<float*>(out.data) + me.rank * rows;
      ASSERT_TRUE(mine.Do(mine.Ask(OpKind::kAllgather, "in place" + n, in, out)).ok());
      for (int from = 0; from < 3; ++from)
        std::fill_n(whole.begin() + from * rows, rows, static_cast<float>(from));
      EXPECT_EQ(mine.Get<float>(out), whole);

      out = mine.Put(Floats(static_cast<size_t>(3 * rows), -1));
      Submission parts = mine.Ask(OpKind::kAlltoall, "parts" + n,
                                  mine.Put(Floats(static_cast<size_t>(3 * rows), r)), out);
      parts.request.splits = {rows, rows, rows};
      ASSERT_TRUE(mine.Do(std::move(parts), &handle).ok());
      EXPECT_EQ(mine.Get<float>(out), whole);
      EXPECT_EQ(handle->memory(), nullptr);

      out = mine.Put(Floats(static_cast<size_t>(rows), -1));
      ASSERT_TRUE(mine.Do(mine.Ask(OpKind::kReducescatter, "scattered" + n,
                                   mine.Put(Floats(static_cast<size_t>(3 * rows), r)), out),
                          &handle)
                      .ok());
      EXPECT_EQ(mine.Get<float>(out), Floats(static_cast<size_t>(rows), 3));
      EXPECT_EQ(handle->memory(), nullptr);
    }
  });
}

TEST_P(EngineGpuOutput, of_another_size_fails_on_its_rank_only) {
  RunRanks(Options(), [&](Rank& me) {
    GpuRank mine(&me, &cuda, me.rank);
    const Floats untouched(static_cast<size_t>(me.rank == 1 ? 7 : 6), -1);
    const TensorView out = mine.Put(untouched);
    HandlePtr handle = me.Submit(
        mine.Ask(OpKind::kAllgather, "x", mine.Put(Count(2, static_cast<float>(me.rank))), out));
    const Status status = me.Wait(handle);
    ASSERT_TRUE(mine.Follow(handle).ok());
    EXPECT_EQ(status.code(), me.rank == 1 ? StatusCode::kInvalidArgument : StatusCode::kOk);
    EXPECT_EQ(mine.Get<float>(out), me.rank == 1 ? untouched : (Floats{0, 1, 1, 2, 2, 3}));
    ASSERT_TRUE(me.Do(Barrier("after")).ok());
  });
}

}  // namespace
}  // namespace hvdlite::testing
