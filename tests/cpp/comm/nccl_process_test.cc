// Ranks as processes: this program started anew, once for each rank, over the fake NCCL's shared
// memory.
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "nccl_world.h"

extern char** environ;

namespace hvdlite::comm::net_testing {
namespace {

constexpr int kRanks = 3;
constexpr const char* kVariable = "HVDLITE_TEST_NCCL_RANK";  // "1 leaves 0123ab..."

// How each of the ranks ended.
std::vector<int> RunRanks(const std::string& how) {
  nccl::UniqueId id;
  EXPECT_TRUE(nccl::NewUniqueId(*FakeNccl::library(), &id).ok());
  std::string hex;
  for (char byte : id.bytes) {
    char digits[3];
    snprintf(digits, sizeof(digits), "%02x", static_cast<unsigned char>(byte));
    hex += digits;
  }
  std::vector<pid_t> processes;
  for (int r = 0; r < kRanks; ++r) {
    std::string rank = std::string(kVariable) + "=" + std::to_string(r) + " " + how + " " + hex;
    std::vector<char*> environment;
    for (char** variable = environ; *variable != nullptr; ++variable) {
      // Another shard's test would not run at all.
      if (!std::string_view(*variable).starts_with("GTEST_")) environment.push_back(*variable);
    }
    environment.push_back(rank.data());
    environment.push_back(nullptr);
    std::string program = "/proc/self/exe";
    std::string filter = "--gtest_filter=NcclProcess.DISABLED_OneRank";
    std::string disabled = "--gtest_also_run_disabled_tests";
    std::string brief = "--gtest_brief=1";
    char* arguments[] = {program.data(), filter.data(), disabled.data(), brief.data(), nullptr};
    pid_t process = -1;
    EXPECT_EQ(
        posix_spawn(&process, program.c_str(), nullptr, nullptr, arguments, environment.data()), 0);
    processes.push_back(process);
  }
  std::vector<int> ends;
  for (pid_t process : processes) {
    int status = -1;
    EXPECT_EQ(waitpid(process, &status, 0), process);
    ends.push_back(status);
  }
  return ends;
}

Status DoCases(NcclMember* member, int me) {
  uint32_t seed = 0;
  for (OpKind kind : {OpKind::kAllreduce, OpKind::kBroadcast, OpKind::kAllgather,
                      OpKind::kReducescatter, OpKind::kAlltoall}) {
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{1000}, {50000, 3, 0, 17}}) {
      Case c;
      c.kind = kind;
      c.members = kRanks;
      c.sizes = sizes;
      c.seed = ++seed;
      Trial trial(c);
      GpuTrial mine(trial.batch(me), member, me, kRanks);
      const auto work = member->communicator->Start(mine.batch());
      HVDLITE_RETURN_IF_ERROR(DriveGpu(member, work.get()));
      mine.Consume(work->finished());
      HVDLITE_RETURN_IF_ERROR(mine.Finish());
      EXPECT_EQ(trial.Check(me), "");
    }
  }
  return Status::Ok();
}

// Rank 1 has died: what its peers have started waits, and ends when they are told.
void OutliveRankOne(NcclMember* member, int me) {
  Case c;
  c.members = kRanks;
  c.sizes = {1000};
  Trial trial(c);
  GpuTrial mine(trial.batch(me), member, me, kRanks);
  const auto work = member->communicator->Start(mine.batch());
  ASSERT_TRUE(DriveGpu(member, work.get()).ok());
  mine.Consume(work->finished());
  usleep(100000);
  EXPECT_FALSE(mine.Consumed());
  member->Abort();
  EXPECT_TRUE(mine.Finish().ok());
}

// One rank, in a process that RunRanks has started.
TEST(NcclProcess, DISABLED_OneRank) {
  const char* const text = getenv(kVariable);
  if (text == nullptr)
    GTEST_SKIP() << "this is what the other tests start in processes of their own";
  int me = 0;
  char how[16];
  char hex[2 * sizeof(nccl::UniqueId) + 1];
  ASSERT_EQ(sscanf(text, "%d %15s %256s", &me, how, hex), 3);
  nccl::UniqueId id;
  for (size_t i = 0; i < sizeof(id.bytes); ++i) {
    id.bytes[i] = static_cast<char>(std::stoi(std::string(hex + 2 * i, 2), nullptr, 16));
  }
  const testing::Watchdog watchdog(60);
  FakeCuda cuda;
  FakeNccl fake;
  NcclMember member{cuda.Open(), cuda.Open(), nullptr, nullptr};
  ASSERT_TRUE(
      nccl::Channels::Begin(FakeNccl::library(), member.gpu, {{id, me, kRanks}}, &member.channels)
          .ok());
  for (bool ready = false; !ready; usleep(100)) ASSERT_TRUE(member.channels->Poll(&ready).ok());
  const nccl::Context context{me, kRanks, HasKernels()};
  member.communicator = std::make_unique<nccl::Communicator>(std::move(member.channels), context);
  const Status status = DoCases(&member, me);
  ASSERT_TRUE(status.ok()) << status.ToString();
  if (std::string(how) == "leaves") return;
  if (me == 1) raise(SIGKILL);
  OutliveRankOne(&member, me);
}

TEST(NcclProcess, RanksMayBeProcesses) {
  EXPECT_EQ(RunRanks("leaves"), std::vector<int>(kRanks, 0));
}

TEST(NcclProcess, ARankThatDiesIsWaitedForUntilAborted) {
  const std::vector<int> ends = RunRanks("dies");
  EXPECT_EQ(ends[0], 0);
  EXPECT_TRUE(WIFSIGNALED(ends[1]));
  EXPECT_EQ(ends[2], 0);
}

}  // namespace
}  // namespace hvdlite::comm::net_testing
