// Encoded allreduces of tensors on (fake) GPUs: the bits of the processor, on the device where that
// can be, and on the host elsewhere.
#include <limits>

#include "testing/gpu_rank.h"
#include "testing/normal.h"
#include "testing/says.h"

namespace hvdlite::testing {
namespace {

using Floats = std::vector<float>;

constexpr CodecSpec kSpecs[] = {{Codec::kInt8, 0},        {Codec::kFp8, 0},
                                {Codec::kSign, 0},        {Codec::kTernary, 2.5},
                                {Codec::kThreshold, 0.5}, {Codec::kQsgd, 7}};

struct Way {
  const char* name;
  const char* operations;
  int ranks, hosts;
  int capability;  // of the device; below 75 no kernel runs there
  bool on_device;
};
constexpr Way kWays[] = {
    {"nccl", "nccl", 3, 1, 90, true},          {"stage", "stage", 3, 1, 90, true},
    {"two_ranks", "stage", 2, 1, 90, true},    {"one_rank", "nccl", 1, 1, 90, true},
    {"a_rank_a_host", "nccl", 3, 3, 90, true}, {"ranks_on_hosts", "nccl", 4, 2, 90, false},
    {"no_kernels", "stage", 3, 1, 70, false},
};

Submission Encoded(Submission submission, const CodecSpec& spec, float* residual, uint64_t step) {
  submission.request.codec = spec;
  submission.request.op = ReduceOp::kAverage;
  submission.request.prescale = 0.75;
  submission.request.postscale = 3;
  submission.feedback = {residual, 11, step};
  return submission;
}

uint64_t OnDevice(const Rank& me) {
  return me.engine->world().carrier_counts().By(comm::Carrier::kEncodedOnGpu, OpKind::kAllreduce);
}

class EngineGpuEncoded : public ::testing::TestWithParam<Way> {
 protected:
  EngineGpuEncoded() {
    fake_cuda_set("devices", 4);
    fake_cuda_set("capability", GetParam().capability);
  }
  static RanksOptions Options() {
    RanksOptions options;
    options.size = GetParam().ranks;
    options.hosts = GetParam().hosts;
    options.config = GpuConfig(GetParam().operations);
    options.config.gpu_chunk_bytes = 4096;
    return options;
  }
  FakeCuda cuda;
};
INSTANTIATE_TEST_SUITE_P(, EngineGpuEncoded, ::testing::ValuesIn(kWays),
                         [](const auto& way) { return std::string(way.param.name); });

TEST_P(EngineGpuEncoded, gives_the_bits_of_the_processor) {
  RunRanks(Options(), [&](Rank& me) {
    GpuRank mine(&me, &cuda, me.rank);
    unsigned seed = static_cast<unsigned>(me.rank);
    for (const CodecSpec& spec : kSpecs) {
      for (const size_t count : {size_t{0}, size_t{3}, size_t{20'011}}) {
        const std::string name = ToString(spec) + std::to_string(count);
        for (const bool feedback : {true, false}) {
          Floats residual(count), result(count);
          const TensorView residual_there = mine.Put(residual);
          for (uint64_t step = 0; step < 2; ++step) {
            const Floats values = Normal(count, seed += 10);
            ASSERT_TRUE(me.Do(Encoded(Allreduce(name, values, &result), spec,
                                      feedback ? residual.data() : nullptr, step))
                            .ok());
            const TensorView x = mine.Put(values);
            HandlePtr handle;
            const bool in_place = step == 1;
            const Status status = mine.Do(
                Encoded(mine.Ask(OpKind::kAllreduce, name, x, in_place ? x : TensorView()), spec,
                        feedback ? static_cast<float*>(residual_there.data) : nullptr, step),
                &handle);
            ASSERT_TRUE(status.ok()) << status.ToString();
            EXPECT_EQ(mine.Get<float>(in_place ? x : handle->output), result) << name;
            EXPECT_EQ(mine.Get<float>(residual_there), residual) << name;
          }
        }
      }
    }
    EXPECT_EQ(OnDevice(me) > 0, GetParam().on_device);
  });
}

// Tensors of one batch, and none of it is late.
TEST_P(EngineGpuEncoded, many_at_once_give_what_one_by_one_gives) {
  RunRanks(Options(), [&](Rank& me) {
    GpuRank mine(&me, &cuda, me.rank);
    const CodecSpec spec{Codec::kTernary, 2.5};
    std::vector<HandlePtr> handles;
    std::vector<Floats> inputs;
    for (size_t i = 0; i < 60; ++i) inputs.push_back(Normal(1 + 97 * i, static_cast<unsigned>(i)));
    for (size_t i = 0; i < inputs.size(); ++i) {
      handles.push_back(me.Submit(
          Encoded(mine.Ask(OpKind::kAllreduce, "t" + std::to_string(i), mine.Put(inputs[i])), spec,
                  nullptr, 1)));
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      ASSERT_TRUE(me.Wait(handles[i]).ok());
      ASSERT_TRUE(mine.Follow(handles[i]).ok());
      Floats result(inputs[i].size());
      ASSERT_TRUE(
          me.Do(Encoded(Allreduce("t" + std::to_string(i), inputs[i], &result), spec, nullptr, 1))
              .ok());
      EXPECT_EQ(mine.Get<float>(handles[i]->output), result) << i;
    }
  });
}

TEST_P(EngineGpuEncoded, a_block_with_an_infinite_number_enters_no_residual) {
  RunRanks(Options(), [&](Rank& me) {
    GpuRank mine(&me, &cuda, me.rank);
    Floats values(9000, 1.25F);
    if (me.rank == 0) values[4321] = std::numeric_limits<float>::infinity();
    const TensorView residual = mine.Put(Floats(9000, 0.5F));
    HandlePtr handle;
    ASSERT_TRUE(mine.Do(Encoded(mine.Ask(OpKind::kAllreduce, "x", mine.Put(values)),
                                {Codec::kInt8, 0}, static_cast<float*>(residual.data), 0),
                        &handle)
                    .ok());
    const Floats result = mine.Get<float>(handle->output), kept = mine.Get<float>(residual);
    int nans = 0;
    for (size_t i = 0; i < result.size(); ++i) {
      if (result[i] == result[i]) continue;
      ++nans;
      EXPECT_EQ(kept[i], 0.5F);
    }
    EXPECT_NE(result[4321], result[4321]);
    EXPECT_LE(nans, 256);
  });
}

TEST_P(EngineGpuEncoded, ranks_that_have_joined_give_zeros) {
  RunRanks(Options(), [&](Rank& me) {
    GpuRank mine(&me, &cuda, me.rank);
    // The last rank has never used its GPU.
    if (me.rank + 1 < me.size || me.size == 1) {
      HandlePtr handle;
      Submission s = mine.Ask(OpKind::kAllreduce, "x", mine.Put(Floats(5000, 2)));
      s.request.codec = {Codec::kSign, 0};
      ASSERT_TRUE(mine.Do(std::move(s), &handle).ok());
      const int others = me.size == 1 ? 1 : me.size - 1;
      EXPECT_EQ(mine.Get<float>(handle->output), Floats(5000, static_cast<float>(2 * others)));
    }
    ASSERT_TRUE(me.Do(Join()).ok());
    const TensorView x = mine.Put(Floats(5000, 2));
    Submission s = mine.Ask(OpKind::kAllreduce, "y", x, x);
    s.request.codec = {Codec::kSign, 0};
    ASSERT_TRUE(mine.Do(std::move(s)).ok());
    EXPECT_EQ(mine.Get<float>(x), Floats(5000, static_cast<float>(2 * me.size)));
    EXPECT_EQ(OnDevice(me) > 0, GetParam().on_device);
  });
}

}  // namespace
}  // namespace hvdlite::testing
