// Allreduce by hosts: who sits where, which calls come of it, and that results are those of the
// flat way.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "nccl_world.h"
#include "testing/says.h"
#include "testing/tier.h"

namespace hvdlite::comm::net_testing {
namespace {

using nccl::Among;
using nccl::Grid;
using nccl::Round;
using What = nccl::Call::What;

Topology HostsOf(std::vector<std::vector<int>> hosts) {
  Topology topology;
  size_t members = 0;
  for (const auto& host : hosts) members += host.size();
  topology.host_of.resize(members);
  topology.local_of.resize(members);
  for (size_t h = 0; h < hosts.size(); ++h) {
    for (size_t l = 0; l < hosts[h].size(); ++l) {
      topology.host_of[static_cast<size_t>(hosts[h][l])] = static_cast<int>(h);
      topology.local_of[static_cast<size_t>(hosts[h][l])] = static_cast<int>(l);
    }
  }
  for (size_t m = 0; m < members; ++m) topology.ranks.push_back(static_cast<int>(m));
  topology.hosts = std::move(hosts);
  return topology;
}

TEST(NcclGrid, IsUsedWhereHostsAreSeveralAndAlike) {
  const std::pair<Topology, const char*> flat[] = {
      {HostsOf({{0, 1, 2}}), "all members are on one host"},
      {HostsOf({{0}}), "all members are on one host"},
      {HostsOf({{0}, {1}}), "there is one member on each host"},
      {HostsOf({{0, 1}, {2}}), "the hosts have different numbers of members"},
  };
  for (const auto& [topology, why] : flat) {
    const Grid grid = nccl::MakeGrid(topology, 0, true);
    EXPECT_FALSE(grid.used);
    EXPECT_EQ(grid.why, std::string("not by hosts, although that was requested: ") + why);
  }
  const Topology topology = HostsOf({{0, 2, 5}, {1, 3, 4}});
  EXPECT_FALSE(nccl::MakeGrid(topology, 0, false).used);
  EXPECT_EQ(nccl::MakeGrid(topology, 0, false).why, "");
  const Grid grid = nccl::MakeGrid(topology, 4, true);
  EXPECT_TRUE(grid.used);
  EXPECT_EQ(grid.hosts, 2);
  EXPECT_EQ(grid.places, 3);
  EXPECT_EQ(grid.host, 1);
  EXPECT_EQ(grid.place, 2);
  EXPECT_EQ(grid.first_of_host, 1);
  EXPECT_EQ(grid.first_of_place, 5);
  EXPECT_TRUE(Says(grid.why, "inside each of 2 hosts"));
}

// Member 3 of {0 1 2 | 3 4 5}; its tensors lie at `memory`.
struct Planned {
  explicit Planned(std::vector<int64_t> counts, DType dtype = DType::kFloat32,
                   bool kernels = true) {
    batch.kind = OpKind::kAllreduce;
    batch.dtype = batch.reduce.dtype = dtype;
    for (int64_t count : counts) batch.pieces.push_back({memory, memory, count, {}});
    const nccl::Context context{3, 6, kernels,
                                nccl::MakeGrid(HostsOf({{0, 1, 2}, {3, 4, 5}}), 4, true)};
    nccl::Planner planner(context, batch);
    bytes = planner.BufferBytes();
    rounds = std::move(planner).Make(buffer).rounds;
    why = nccl::ExplainLayout(context, batch);
  }
  char memory[64];
  char buffer[256];
  Batch batch;
  size_t bytes = 0;
  std::vector<Round> rounds;
  std::string why;
};

void ExpectCall(const Round& round, Among among, What what, const void* from, void* to,
                size_t count) {
  EXPECT_EQ(round.among, among);
  ASSERT_EQ(round.calls.size(), 1u);
  EXPECT_EQ(round.calls[0].what, what);
  EXPECT_EQ(round.calls[0].from, from);
  EXPECT_EQ(round.calls[0].to, to);
  EXPECT_EQ(round.calls[0].count, count);
}

TEST(NcclGrid, OneTensorIsCutAndWhatIsLeftGoesAmongAll) {
  const Planned p({14});
  EXPECT_EQ(p.bytes, 0u);
  ASSERT_EQ(p.rounds.size(), 4u);
  char* const at = const_cast<char*>(p.memory);
  char* const mine = at + 4 * 4;
  ExpectCall(p.rounds[0], Among::kAll, What::kAllReduce, at + 48, at + 48, 2);
  ExpectCall(p.rounds[1], Among::kHost, What::kReduceScatter, at, mine, 4);
  ExpectCall(p.rounds[2], Among::kPlace, What::kAllReduce, mine, mine, 4);
  ExpectCall(p.rounds[3], Among::kHost, What::kAllGather, mine, at, 4);
  EXPECT_TRUE(Says(p.why, "directly, 1 tensor among 6 members, allreduce by hosts"));
  EXPECT_EQ(Planned({12}).rounds.size(), 3u);  // nothing is left
  const Planned tiny({2});
  ASSERT_EQ(tiny.rounds.size(), 1u);
  EXPECT_EQ(tiny.rounds[0].among, Among::kAll);
}

TEST(NcclGrid, AFusedBatchIsPaddedToEvenShares) {
  const Planned p({7, 3, 1}, DType::kBFloat16);  // 14, 6 and 2 bytes, each from a multiple of 16
  EXPECT_EQ(p.bytes, 48u);
  const Planned more({7, 3, 1, 1}, DType::kBFloat16);
  EXPECT_EQ(more.bytes, 96u);
  ASSERT_EQ(more.rounds.size(), 3u);
  char* const at = const_cast<char*>(more.buffer);
  ExpectCall(more.rounds[0], Among::kHost, What::kReduceScatter, at, at + 32, 16);
  ExpectCall(more.rounds[1], Among::kPlace, What::kAllReduce, at + 32, at + 32, 16);
  ExpectCall(more.rounds[2], Among::kHost, What::kAllGather, at + 32, at, 16);
}

TEST(NcclGrid, WithoutKernelsEachTensorIsCutByItself) {
  const Planned p({4, 5, 6}, DType::kFloat32, false);
  ASSERT_EQ(p.rounds.size(), 4u);
  EXPECT_EQ(p.rounds[0].calls.size(), 2u);
  for (size_t r = 1; r < 4; ++r) EXPECT_EQ(p.rounds[r].calls.size(), 3u);
}

TEST(NcclGrid, NothingButAllreduceGoesByIt) {
  Batch batch;
  batch.kind = OpKind::kBroadcast;
  char memory[8];
  batch.pieces.push_back({memory, memory, 8, {}});
  const nccl::Context context{0, 4, true, nccl::MakeGrid(HostsOf({{0, 1}, {2, 3}}), 0, true)};
  const nccl::Plan plan = nccl::Planner(context, batch).Make(nullptr);
  ASSERT_EQ(plan.rounds.size(), 1u);
  EXPECT_EQ(plan.rounds[0].among, Among::kAll);
  EXPECT_FALSE(Says(nccl::ExplainLayout(context, batch), "by hosts"));
}

// "aabb": two hosts with two members each; "abab": the same, placed in turns.
class NcclGrids : public ::testing::TestWithParam<const char*> {
 protected:
  static std::vector<Case> EveryOpAndScale(int members) {
    const std::vector<std::vector<int64_t>> shapes = {
        {0}, {1}, {3}, {13}, {6007}, {1, 0, 3, 0}, {7, 1, 300, 0, 2, 4099, 1}};
    const std::vector<ReduceOp> ops = {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin,
                                       ReduceOp::kMax, ReduceOp::kProduct};
    std::vector<Case> cases = EveryOpDtypeAndShape(members, ops, shapes, 0);
    for (Case& c : cases) {
      // Of other divisors NCCL's result is not the reference's to the last bit.
      if (c.op == ReduceOp::kAverage && members == 4) c.divisor = members;
    }
    return cases;
  }
};
INSTANTIATE_TEST_SUITE_P(, NcclGrids,
                         ::testing::ValuesIn(testing::InTier<const char*>({"abab", "aabbcc"},
                                                                          {"aabb", "abbaba"})),
                         [](const auto& hosts) { return std::string(hosts.param); });

TEST_P(NcclGrids, EveryOpDtypeAndScaleMatchesTheReference) {
  if (!HasKernels()) GTEST_SKIP() << kNoKernels;
  NcclWorld world(NcclShape{GetParam()});
  ASSERT_TRUE(world.GridOf(0).used);
  EXPECT_EQ(fake_nccl_live(), 3 * world.size());
  const std::vector<Case> cases = EveryOpAndScale(world.size());
  EXPECT_EQ(RunGpuCases(&world, cases), cases.size() * 11 / 13);  // two types are not for NCCL
  EXPECT_GT(fake_nccl_calls("ncclReduceScatter"), 0);
  world.ShutDown();
  FakeNccl::ExpectLeft(0);
  world.Destroy();
  EXPECT_EQ(fake_nccl_calls("ncclCommAbort"), 0);
}

TEST_P(NcclGrids, WithoutKernelsToo) {
  NcclWorld world(NcclShape{GetParam(), /*kernels=*/false});
  const std::vector<Case> cases =
      EveryKindDtypeAndShape(world.size(), {OpKind::kAllreduce, OpKind::kAllgather});
  EXPECT_GT(RunGpuCases(&world, cases), cases.size() / 2);
  EXPECT_GT(fake_nccl_calls("ncclReduceScatter"), 0);
}

TEST_P(NcclGrids, HoweverLateNcclIs) {
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    NcclWorld world(NcclShape{GetParam()});
    BeLate(seed);
    std::vector<Case> cases;
    for (uint32_t i = 0; i < 30; ++i) {
      Case c;
      c.kind = i % 5 == 4 ? OpKind::kAllgather : OpKind::kAllreduce;
      c.members = world.size();
      c.sizes = Shapes()[(i * 7 + seed) % Shapes().size()];
      c.seed = seed * 100 + i;
      cases.push_back(c);
    }
    EXPECT_EQ(RunGpuCases(&world, cases), cases.size());
  }
}

// Every round of every member's: whichever is the one that never comes, all others' streams go on
// when they are told to give up.
TEST(NcclGridFailure, AMemberThatStopsAnywhereIsWaitedForUntilAborted) {
  for (const char* symbol : {"ncclReduceScatter", "ncclAllReduce", "ncclAllGather"}) {
    NcclWorld world(NcclShape{"aabb"});
    fake_nccl_fail(symbol, 1, 1, 3);  // whoever is second there
    Case c;
    c.members = 4;
    c.sizes = {5000};
    Trial trial(c);
    std::atomic<bool> known{false};
    const std::vector<Status> statuses = world.Run([&](int me, NcclMember& member) {
      GpuTrial mine(trial.batch(me), &member, me, 4);
      const auto work = member.communicator->Start(mine.batch());
      Status status = DriveGpu(&member, work.get());
      if (!status.ok()) known = true;
      while (!known) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      member.Abort();
      EventPtr idle;
      EXPECT_TRUE(member.gpu->Record(member.gpu->stream(), &idle).ok());
      EXPECT_TRUE(Await(idle).ok());
      return status;
    });
    EXPECT_TRUE(known) << symbol;
    FakeNccl::ExpectLeft(0);
  }
}

}  // namespace
}  // namespace hvdlite::comm::net_testing
