// Every collective over MPI against the plain reference, over an MPI that delays and reorders as it
// may.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "mpi_world.h"
#include "net_case.h"
#include "testing/says.h"
#include "testing/tier.h"

namespace hvdlite::comm::net_testing {
namespace {

mpi::Options SmallChunks(const std::string& allreduce = "auto") {
  mpi::Options options;
  options.chunk_bytes = 512;
  options.allreduce = allreduce;
  return options;
}

class MpiProperty : public ::testing::TestWithParam<int> {};

TEST_P(MpiProperty, EveryKindDtypeAndShapeMatchesTheReference) {
  const int members = GetParam();
  MpiWorld world(members, SmallChunks(), {.seed = 5});
  RunCases(&world, EveryKindDtypeAndShape(members));
}

TEST_P(MpiProperty, EveryWayOpAndScaleOfAnAllreduceMatchesTheReference) {
  const int members = GetParam();
  for (const std::string way : {"library", "direct", "gather"}) {
    MpiWorld world(members, SmallChunks(way), {.seed = 6});
    RunCases(&world,
             EveryOpDtypeAndShape(
                 members, {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct},
                 Shapes(), 1000));
  }
}

TEST_P(MpiProperty, SlowMessagesAndFastOnes) {
  const int members = GetParam();
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    MpiWorld world(members, SmallChunks(),
                   {.seed = seed, .delay = 0.15 * seed, .eager_bytes = 100u * seed * seed});
    RunCases(&world, KindsAndShapesInTurn(members, seed, kKinds, Shapes()));
  }
}

INSTANTIATE_TEST_SUITE_P(Members, MpiProperty,
                         ::testing::ValuesIn(testing::InTier<int>({2, 3}, {4, 7})));

TEST(Mpi, NoCountIsLargerThanAskedFor) {
  for (const std::string way : {"library", "direct"}) {
    MpiWorld world(2, SmallChunks(way));
    std::vector<Case> cases(3);
    for (OpKind kind : kKinds) {
      Case c;
      c.kind = kind;
      c.sizes = {500000, 3, 9, 200000};
      cases.push_back(c);
    }
    RunCases(&world, cases);
    EXPECT_LE(world.fake().largest_count(), 256 * 512);
    EXPECT_GE(world.fake().largest_count(), 512);
  }
}

TEST(Mpi, GivesItsCommunicatorsBack) {
  MpiWorld world(3, SmallChunks());
  EXPECT_EQ(world.fake().open_communicators(), 3);
  world.Destroy();
  EXPECT_EQ(world.fake().open_communicators(), 0);
}

// The member whose MPI fails hears MPI's words; the others give up half-way, as the engine does
// when it hears of it. What MPI may still write to is not freed: the address sanitizer would see
// it.
TEST(Mpi, AnErrorOfMpiFailsTheWorkAndKeepsWhatIsUnderWay) {
  for (int after : {0, 1, 3, 10, 30}) {
    MpiWorld world(3, SmallChunks(), {.seed = 9, .fail_rank = 1, .fail_after = after + 1});
    std::atomic<bool> over{false};
    Case c;
    c.members = 3;
    c.sizes = {5000};
    std::vector<std::unique_ptr<Trial>> trials;
    for (int i = 0; i < 4; ++i) trials.push_back(std::make_unique<Trial>(c));
    const std::vector<Status> statuses = world.Run([&](int member, Communicator* communicator) {
      for (const auto& trial : trials) {
        const auto work = communicator->Start(trial->batch(member));
        while (!over) {
          const Progress progress = work->Advance();
          if (progress == Progress::kDone) break;
          if (progress == Progress::kFailed) {
            over = true;
            return work->status();
          }
          std::this_thread::yield();
        }
        if (over) return Status::Ok();
      }
      return Status::Ok();
    });
    ASSERT_TRUE(over) << after;
    EXPECT_TRUE(FailsWith(statuses[1], StatusCode::kPeerLost, "the fake MPI's error 17"));
  }
}

}  // namespace
}  // namespace hvdlite::comm::net_testing
