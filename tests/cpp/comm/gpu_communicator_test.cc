// gpu::Communicator over a host communicator that does what a test says: what comes of an exchange
// that fails, or tells rubbish.
#include "comm/gpu/communicator.h"

#include <gtest/gtest.h>

#include <cstring>

#include "testing/fake_cuda.h"
#include "testing/fake_nccl.h"
#include "testing/says.h"

namespace hvdlite::comm::gpu {
namespace {

using hvdlite::testing::FakeCuda;
using hvdlite::testing::FakeNccl;

// Of one member: an allgather gives it what it has.
class Host final : public comm::Communicator {
 public:
  // The exchange that fails, or is answered with rubbish; 1 is the first, 0 none.
  int fails = 0;
  int lies = 0;

  const char* name() const override { return "host"; }
  std::string Explain(const Batch&) const override { return "alone"; }
  std::unique_ptr<Work> Start(const Batch& batch) override {
    ++started_;
    return std::make_unique<Exchanged>(batch, started_ == fails, started_ == lies);
  }
  void AddPollFds(std::vector<pollfd>*) const override {}

 private:
  class Exchanged final : public Work {
   public:
    Exchanged(const Batch& batch, bool fails, bool lies)
        : piece_(batch.pieces[0]), fails_(fails), lies_(lies) {}
    Progress Advance() override {
      if (fails_) return Fail(Status::PeerLost(1, "rank 1 is gone"));
      const auto bytes = static_cast<size_t>(piece_.counts[0]);
      std::memcpy(piece_.output, piece_.input, bytes);
      if (lies_) std::memset(piece_.output, 0xff, bytes);
      return Progress::kDone;
    }

   private:
    const Piece& piece_;
    const bool fails_;
    const bool lies_;
  };
  int started_ = 0;
};

class GpuCommunicatorTest : public ::testing::Test {
 protected:
  GpuCommunicatorTest() {
    config_.cuda_library = FakeCuda::kLibrary;
    config_.nccl_library = FakeNccl::kLibrary;
    EXPECT_TRUE(card_.Open(0, &gpu_).ok());
    options_.ranks = {0};
    options_.preference = {"auto", "alone"};
    batch_.kind = OpKind::kAllgather;  // all are asked first
    batch_.device = {DeviceKind::kCuda, 0};
    batch_.pieces.resize(1);
    batch_.pieces[0].counts = {0};
  }
  // To its end.
  std::unique_ptr<Work> Turn(gpu::Communicator* communicator) {
    auto work = communicator->Start(batch_);
    for (Progress progress = Progress::kNone;
         progress != Progress::kDone && progress != Progress::kFailed;) {
      progress = work->Advance();
    }
    return work;
  }

  FakeCuda cuda_;
  FakeNccl nccl_;
  Config config_;
  Card card_{config_};
  std::shared_ptr<device::Gpu> gpu_;
  Host host_;
  gpu::Options options_;
  Batch batch_;
};

TEST_F(GpuCommunicatorTest, IsWhatItsMembersHaveDecided) {
  gpu::Communicator communicator(&host_, &card_, options_);
  EXPECT_STREQ(communicator.name(), "gpu");
  EXPECT_EQ(communicator.Explain(batch_), "the members have not decided yet");
  EXPECT_TRUE(Turn(&communicator)->status().ok());
  EXPECT_STREQ(communicator.name(), "nccl");
  EXPECT_EQ(communicator.Explain(batch_).rfind("nccl: nothing to do", 0), 0u)
      << communicator.Explain(batch_);
}

// Of what the members have, and of whether all can take part.
TEST_F(GpuCommunicatorTest, AnExchangeThatFailsFailsTheBatchAndNotAlone) {
  for (const int nth : {1, 2}) {
    Host host;
    host.fails = nth;
    gpu::Communicator communicator(&host, &card_, options_);
    const auto work = Turn(&communicator);
    EXPECT_EQ(work->status().code(), StatusCode::kPeerLost);
    EXPECT_EQ(work->status().message(), "rank 1 is gone");
    EXPECT_FALSE(work->failed_alone());
  }
}

TEST_F(GpuCommunicatorTest, AMemberThatCannotBeReadEndsTheJob) {
  host_.lies = 1;
  gpu::Communicator communicator(&host_, &card_, options_);
  const auto work = Turn(&communicator);
  EXPECT_TRUE(
      FailsWith(work->status(), StatusCode::kInternal, "do all run the same version of hvdlite?"));
  EXPECT_FALSE(work->failed_alone());
}

TEST_F(GpuCommunicatorTest, AnObstacleFailsTheOperationAloneWithTheRanksName) {
  gpu::Communicator communicator(&host_, &card_, options_);
  batch_.obstacle = Status::Io("no memory");
  const auto work = Turn(&communicator);
  EXPECT_TRUE(work->failed_alone());
  EXPECT_EQ(work->status().message(),
            "rank 0 cannot take part: no memory. The operation has failed on all ranks; nothing "
            "else has");
  batch_.obstacle = Status::Ok();
  EXPECT_TRUE(Turn(&communicator)->status().ok());
}

}  // namespace
}  // namespace hvdlite::comm::gpu
