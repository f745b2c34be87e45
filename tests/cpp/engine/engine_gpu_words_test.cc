// What is said of tensors on (fake) GPUs: in the timeline how they travelled, and to whoever asks
// where they lie.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "kernels/cuda/image.h"
#include "testing/gpu_rank.h"
#include "testing/says.h"

namespace hvdlite::testing {
namespace {

std::string Whole(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// Of a sum, an Adasum, and a type that NCCL does not have: the timeline, and after it the counters.
std::string TimelineAndMetricsOf(const std::string& operations) {
  FakeCuda cuda;
  Config config = GpuConfig(operations);
  std::string metrics;
  config.timeline = ::testing::TempDir() + "gpu-timeline-" + std::to_string(getpid());
  RunRanks({.size = 2, .config = config}, [&](Rank& me) {
    GpuRank mine(&me, &cuda, me.rank);
    const TensorView x = mine.Put(std::vector<float>(100, 1));
    ASSERT_TRUE(mine.Do(mine.Ask(OpKind::kAllreduce, "sum", x, x)).ok());
    Submission adasum = mine.Ask(OpKind::kAllreduce, "adasum", x, x);
    adasum.request.op = ReduceOp::kAdasum;
    ASSERT_TRUE(mine.Do(std::move(adasum)).ok());
    TensorView shorts = mine.Put(std::vector<int32_t>(100, (7 << 16) + 3));
    shorts.dtype = DType::kInt16;
    shorts.shape = {200};
    ASSERT_TRUE(mine.Do(mine.Ask(OpKind::kAllreduce, "shorts", shorts, shorts)).ok());
    shorts.dtype = DType::kInt32;
    shorts.shape = {100};
    EXPECT_EQ(mine.Get<int32_t>(shorts), std::vector<int32_t>(100, (14 << 16) + 6));
    if (me.rank == 0) metrics = me.engine->Metrics();
  });
  const std::string text = Whole(config.timeline) + metrics;
  std::remove(config.timeline.c_str());
  return text;
}

void ExpectIn(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_TRUE(Says(text, part)) << part << "\nis not in\n" << text;
}

TEST(EngineGpuWords, the_timeline_and_the_counters_tell_what_nccl_does_and_what_it_does_not) {
  if (kernels::cuda::Images().empty())
    GTEST_SKIP() << "this build has no GPU kernels, so NCCL does no Adasum";
  ExpectIn(TimelineAndMetricsOf("nccl"),
           {"NCCL_ALLREDUCE", "nccl: directly, 1 tensor among 2 members",
            "nccl: adasum by halves on the device, among 2 members", "through host memory, there ",
            " (not by NCCL: NCCL has no int16)", R"("stage": {"allreduce": 1})",
            R"("nccl": {"allreduce": 2})"});
}

TEST(EngineGpuWords, the_timeline_and_the_counters_tell_that_all_is_staged) {
  const std::string text = TimelineAndMetricsOf("stage");
  ExpectIn(text,
           {"STAGE_ALLREDUCE", "through host memory, there ", R"("stage": {"allreduce": 3})"});
  EXPECT_FALSE(Says(text, "nccl:"));
}

TEST(EngineGpuWords, an_engine_knows_on_which_gpu_memory_lies) {
  FakeCuda cuda;
  RunRanks({.size = 1, .config = GpuConfig("stage")}, [&](Rank& me) {
    EXPECT_TRUE(me.engine->world().card().Usable().ok());
    for (const int there : {0, 1}) {
      GpuRank mine(&me, &cuda, there);
      const TensorView x = mine.Put(std::vector<float>(10, 1));
      int ordinal = -1;
      ASSERT_TRUE(me.engine->world().card().Find(x.data, &ordinal).ok());
      EXPECT_EQ(ordinal, there);
    }
    int ordinal = -1;
    const float on_host = 0;
    EXPECT_EQ(me.engine->world().card().Find(&on_host, &ordinal).message(),
              "CUDA failed while asking which GPU a tensor lies on: invalid argument "
              "(CUDA_ERROR_INVALID_VALUE)");
  });
}

TEST(EngineGpuWords, an_engine_without_a_driver_says_so_each_time) {
  Config config = GpuConfig("stage");
  config.cuda_library = "libcuda-of-nobody.so.1";
  RunRanks({.size = 1, .config = config}, [&](Rank& me) {
    for (int i = 0; i < 2; ++i) {
      int ordinal = -1;
      const Status status = me.engine->world().card().Usable();
      EXPECT_TRUE(
          FailsWith(status, StatusCode::kUnsupported, "no NVIDIA driver is installed here"));
      EXPECT_EQ(me.engine->world().card().Find(&ordinal, &ordinal).ToString(), status.ToString());
    }
  });
}

}  // namespace
}  // namespace hvdlite::testing
