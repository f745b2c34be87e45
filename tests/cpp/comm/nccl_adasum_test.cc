// Adasum over NCCL: near what the host's members give, the same bits on all members, however late
// NCCL is and whatever fails.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "nccl_world.h"
#include "testing/says.h"
#include "testing/tier.h"

namespace hvdlite::comm::net_testing {
namespace {

constexpr DType kFloats[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};
// None, ones smaller than what is cut at, and odd ones.
const std::vector<std::vector<int64_t>> kSizes = {
    {}, {0}, {1}, {9}, {4099}, {1, 777, 0, 3, 12000}, {2, 2, 2}};

double Get(DType dtype, const char* from) {
  const auto get = [&](auto typed) {
    std::memcpy(&typed, from, sizeof(typed));
    return typed;
  };
  switch (dtype) {
    case DType::kFloat16: return HalfToFloat(get(uint16_t{}));
    case DType::kBFloat16: return BFloat16ToFloat(get(uint16_t{}));
    case DType::kFloat32: return get(float{});
    default: return get(double{});
  }
}

// A rounding that came out otherwise on the way, and what the levels after it made of that.
double Tolerance(DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return 0x1p-9;
    case DType::kBFloat16: return 0x1p-6;
    case DType::kFloat32: return 0x1p-22;
    default: return 0x1p-48;
  }
}

struct Vectors {
  Vectors(DType type, std::vector<int64_t> of, int members, uint32_t seed)
      : dtype(type), sizes(std::move(of)) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    for (int64_t size : sizes) elements += static_cast<size_t>(size);
    inputs.assign(static_cast<size_t>(members), Bytes(elements * SizeOf(dtype)));
    for (Bytes& input : inputs) {
      for (size_t i = 0; i < elements; ++i)
        Put(dtype, normal(random), input.data() + i * SizeOf(dtype));
    }
    on_gpu = on_host = inputs;
  }
  int members() const { return static_cast<int>(inputs.size()); }
  Batch Of(int member, std::vector<Bytes>* outputs, bool in_place) const {
    const auto m = static_cast<size_t>(member);
    Batch batch;
    batch.kind = OpKind::kAllreduce;
    batch.dtype = dtype;
    batch.adasum = true;
    batch.reduce = {dtype, ReduceOp::kSum, prescale, postscale};
    size_t at = 0;
    for (int64_t size : sizes) {
      Piece piece;
      piece.count = size;
      piece.output = (*outputs)[m].data() + at;
      piece.input = in_place ? piece.output : inputs[m].data() + at;
      batch.pieces.push_back(piece);
      at += static_cast<size_t>(size) * SizeOf(dtype);
    }
    return batch;
  }
  void OnHost() {
    NetWorld net(members());
    const auto statuses = net.Run([&](int me, Communicator* communicator) {
      const Batch batch = Of(me, &on_host, false);
      const auto work = communicator->Start(batch);
      return Drive(communicator, work.get());
    });
    for (const Status& status : statuses) ASSERT_TRUE(status.ok()) << status.ToString();
  }
  Status OnGpu(int me, NcclMember* member, bool in_place) {
    const Batch batch = Of(me, &on_gpu, in_place);
    GpuTrial mine(batch, member, me, members());
    const auto work = member->communicator->Start(mine.batch());
    HVDLITE_RETURN_IF_ERROR(DriveGpu(member, work.get()));
    mine.Consume(work->finished());
    return mine.Finish();
  }
  void Compare() const {
    for (const Bytes& result : on_gpu)
      ASSERT_EQ(result, on_gpu[0]) << Name(dtype) << ": members have different bits";
    for (size_t i = 0; i < elements; ++i) {
      const double got = Get(dtype, on_gpu[0].data() + i * SizeOf(dtype));
      const double want = Get(dtype, on_host[0].data() + i * SizeOf(dtype));
      ASSERT_NEAR(got, want, Tolerance(dtype) * (1 + std::fabs(want)))
          << Name(dtype) << " of " << members() << " members, element " << i << " of " << elements;
    }
  }

  const DType dtype;
  const std::vector<int64_t> sizes;
  size_t elements = 0;
  double prescale = 1, postscale = 1;
  std::vector<Bytes> inputs, on_gpu, on_host;
};

class NcclAdasum : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!HasKernels()) GTEST_SKIP() << kNoKernels;
  }
  // All on their way through one world, in turn.
  static void Run(NcclWorld* world, std::vector<Vectors>* all) {
    const auto statuses = world->Run([&](int me, NcclMember& member) {
      for (size_t i = 0; i < all->size(); ++i) {
        HVDLITE_RETURN_IF_ERROR((*all)[i].OnGpu(me, &member, /*in_place=*/i % 2 == 1));
      }
      return Status::Ok();
    });
    for (const Status& status : statuses) ASSERT_TRUE(status.ok()) << status.ToString();
    for (Vectors& vectors : *all) {
      vectors.OnHost();
      vectors.Compare();
    }
  }
};

TEST_P(NcclAdasum, IsWhatItIsOnTheHostForEveryTypeShapeAndScale) {
  NcclWorld world(GetParam());
  std::vector<Vectors> all;
  for (DType dtype : kFloats) {
    for (const auto& sizes : kSizes) {
      all.emplace_back(dtype, sizes, GetParam(), static_cast<uint32_t>(all.size()));
      if (all.size() % 3 == 0) all.back().prescale = 0.5;
      if (all.size() % 2 == 0) all.back().postscale = 3;
    }
  }
  Run(&world, &all);
}

TEST_P(NcclAdasum, HoweverLateNcclIs) {
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    NcclWorld world(GetParam());
    BeLate(seed);
    std::vector<Vectors> all;
    for (uint32_t i = 0; i < 4; ++i)
      all.emplace_back(DType::kFloat32, kSizes[3 + i % 4], GetParam(), 10 * seed + i);
    Run(&world, &all);
  }
}

INSTANTIATE_TEST_SUITE_P(Members, NcclAdasum,
                         ::testing::ValuesIn(testing::InTier<int>({2, 5}, {1, 3, 4, 7, 8, 9})),
                         [](const auto& members) { return std::to_string(members.param); });

// Of small whole numbers the dot products are exact, so nothing is left to differ in.
TEST(NcclAdasumOfTwo, HasTheHostsBitsWhereDotProductsAreExact) {
  if (!HasKernels()) GTEST_SKIP() << kNoKernels;
  for (DType dtype : kFloats) {
    Vectors vectors(dtype, {500, 1, 300}, 2, 1);
    std::mt19937 random(1);
    for (Bytes& input : vectors.inputs) {
      for (size_t i = 0; i < vectors.elements; ++i)
        Put(dtype, random() % 8, input.data() + i * SizeOf(dtype));
    }
    NcclWorld world(2);
    for (const Status& status :
         world.Run([&](int me, NcclMember& member) { return vectors.OnGpu(me, &member, false); })) {
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
    vectors.OnHost();
    EXPECT_EQ(vectors.on_gpu, vectors.on_host) << Name(dtype);
  }
}

TEST(NcclAdasumOfTwo, WithoutDeviceMemoryGoesThroughPinnedMemory) {
  if (!HasKernels()) GTEST_SKIP() << kNoKernels;
  Vectors vectors(DType::kFloat32, {5000, 3}, 2, 1);
  NcclWorld world(2);
  std::vector<Batch> batches = {vectors.Of(0, &vectors.on_gpu, false),
                                vectors.Of(1, &vectors.on_gpu, false)};
  std::vector<std::unique_ptr<GpuTrial>> trials;
  for (int me = 0; me < 2; ++me) {
    trials.push_back(
        std::make_unique<GpuTrial>(batches[static_cast<size_t>(me)], &world.member(me), me, 2));
  }
  for (const char* symbol : {"cuMemAlloc_v2", "cuMemAllocFromPoolAsync"})
    fake_cuda_fail(symbol, 1, 1000, device::kOutOfMemory);
  const auto statuses = world.Run([&](int me, NcclMember& member) {
    GpuTrial& mine = *trials[static_cast<size_t>(me)];
    const auto work = member.communicator->Start(mine.batch());
    HVDLITE_RETURN_IF_ERROR(DriveGpu(&member, work.get()));
    mine.Consume(work->finished());
    return mine.Finish();
  });
  for (const Status& status : statuses) ASSERT_TRUE(status.ok()) << status.ToString();
  vectors.OnHost();
  vectors.Compare();
}

// Whichever of a member's calls fails, now or on the device: it hears so, and all get away.
TEST(NcclAdasumOfThree, FailsWithNcclsWordsWhateverCallFails) {
  if (!HasKernels()) GTEST_SKIP() << kNoKernels;
  int failed = 0;
  for (const char* symbol :
       {"ncclSend", "ncclRecv", "ncclAllReduce", "ncclGroupEnd", "operation"}) {
    for (int member = 0; member < 3; ++member) {
      for (int nth = 1; nth <= 3; ++nth) {
        Vectors vectors(DType::kFloat32, {5000, 3}, 3, 1);
        NcclWorld world(3);
        fake_nccl_fail(symbol, member, nth, 3);
        std::atomic<bool> known{false};
        std::atomic<int> done{0};
        const auto statuses = world.Run([&](int me, NcclMember& mine) {
          const Batch batch = vectors.Of(me, &vectors.on_gpu, false);
          GpuTrial trial(batch, &mine, me, 3);
          const auto work = mine.communicator->Start(trial.batch());
          Status status;
          Progress progress = Progress::kNone;
          const auto over = [&] { return known || done == 3; };
          while (status.ok() && !over()) {
            if (progress == Progress::kNone) progress = work->Advance();
            if (progress == Progress::kFailed) status = work->status();
            bool fired = false;
            if (progress == Progress::kDone && work->finished()->Query(&fired).ok() && fired) {
              progress = Progress::kSome;
              ++done;
            }
            if (status.ok()) status = mine.communicator->Look();
          }
          if (!status.ok()) known = true;
          if (known) mine.Abort();
          return status;
        });
        const Status& status = statuses[static_cast<size_t>(member)];
        if (!known) continue;  // it has fewer such calls
        ++failed;
        EXPECT_TRUE(Says(status, "internal error"))
            << symbol << ' ' << nth << " of member " << member << ": " << status.ToString();
      }
    }
  }
  // Of three members the first two meet, and the third takes part in the table alone.
  EXPECT_GT(failed, 20);
}

}  // namespace
}  // namespace hvdlite::comm::net_testing
