#include "pool/fork.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>

#include "pool/elsewhere.h"
#include "pool/pool.h"
#include "testing/watchdog.h"

namespace hvdlite::pool::fork_testing {
namespace {

constexpr size_t kSize = 300'000;

class PoolFork : public ::testing::Test {
 protected:
  void SetUp() override {
    Segment* segment = nullptr;
    ASSERT_TRUE(Pool::Process().Open(0, &segment).ok());
    Pool::Process().Expect(kSize, 4);
    Pool::Process().Gate(nullptr, 0);
    Pool::Process().Arm(true);
    block_ = static_cast<char*>(Pool::Process().Take(kSize, 64));
    ASSERT_NE(block_, nullptr);
    memset(block_, 1, kSize);
  }
  void TearDown() override {
    Pool::Process().Give(block_);
    Pool::Process().Arm(false);
    Pool::Process().Expect(kSize, -4);
    EXPECT_EQ(Pool::Process().stats().live, 0u);
  }

  // As fork() does for a program: the child's exit status is what `child` returns.
  static pid_t Fork(const std::function<int()>& child) {
    BeforeFork();
    const pid_t pid = fork();
    if (pid == 0) {
      AfterForkInChild();
      _exit(child());
    }
    AfterForkInParent();
    return pid;
  }
  static int StatusOf(pid_t pid) {
    int status = -1;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return status;
  }

  const testing::Watchdog watchdog_{60};
  char* block_ = nullptr;
};

TEST_F(PoolFork, the_child_has_the_values_of_that_moment_and_memory_of_its_own) {
  int changed[2], wrote[2];
  ASSERT_EQ(pipe(changed) + pipe(wrote), 0);
  const pid_t pid = Fork([&] {
    char byte;
    if (read(changed[0], &byte, 1) != 1) return 1;
    if (block_[0] != 1 || block_[kSize - 1] != 1) return 2;
    block_[0] = 3;
    return write(wrote[1], &byte, 1) == 1 ? 0 : 3;
  });
  memset(block_, 2, kSize);
  char byte = 0;
  ASSERT_EQ(write(changed[1], &byte, 1), 1);
  ASSERT_EQ(read(wrote[0], &byte, 1), 1);
  EXPECT_EQ(block_[0], 2);
  EXPECT_EQ(StatusOf(pid), 0);
  for (int fd : {changed[0], changed[1], wrote[0], wrote[1]}) close(fd);
}

TEST_F(PoolFork, a_childs_child_has_them_as_well) {
  const pid_t pid = Fork([&] {
    block_[0] = 5;
    const pid_t nested = Fork([&] { return block_[0] == 5 && block_[1] == 1 ? 0 : 1; });
    return StatusOf(nested) == 0 ? 0 : 1;
  });
  EXPECT_EQ(StatusOf(pid), 0);
}

TEST_F(PoolFork, the_child_gets_no_new_blocks_and_frees_none) {
  const pid_t pid = Fork([&] {
    Pool& pool = Pool::Process();
    const bool none = pool.Take(kSize, 64) == nullptr;
    pool.Give(block_);
    return none && pool.stats().live == 1 && block_[7] == 1 ? 0 : 1;
  });
  EXPECT_EQ(StatusOf(pid), 0);
}

TEST_F(PoolFork, a_block_is_private_from_the_fork_on_and_in_the_file_again_when_it_is_lent) {
  Segment& segment = *Pool::Process().current();
  const Elsewhere elsewhere(segment);
  EXPECT_EQ(StatusOf(Fork([] { return 0; })), 0);
  block_[0] = 2;
  EXPECT_EQ(elsewhere.at(segment, block_), 1) << "another rank would see a write of a child";
  const int64_t offset = segment.Lend(block_, kSize);
  EXPECT_EQ(offset, block_ - segment.base());
  EXPECT_EQ(elsewhere.at(segment, block_), 2);
  elsewhere.at(segment, block_) = 3;
  EXPECT_EQ(block_[0], 3);
  EXPECT_EQ(block_[1], 1);
}

TEST_F(PoolFork, a_part_of_a_private_block_stays_private) {
  Segment& segment = *Pool::Process().current();
  EXPECT_GE(segment.Lend(block_ + 8, 8), 0);
  EXPECT_EQ(StatusOf(Fork([] { return 0; })), 0);
  EXPECT_EQ(segment.Lend(block_ + 8, 8), -1) << "other threads may write to the rest";
  EXPECT_GE(segment.Lend(block_, kSize), 0);
  EXPECT_GE(segment.Lend(block_ + 8, 8), 0);
}

TEST_F(PoolFork, a_freed_block_is_in_the_file_again_when_it_is_handed_out) {
  Segment& segment = *Pool::Process().current();
  const Elsewhere elsewhere(segment);
  EXPECT_EQ(StatusOf(Fork([] { return 0; })), 0);
  Pool::Process().Give(block_);
  char* const again = static_cast<char*>(Pool::Process().Take(kSize, 64));
  ASSERT_EQ(again, block_);
  again[5] = 6;
  EXPECT_EQ(elsewhere.at(segment, again + 5), 6);
}

TEST_F(PoolFork, the_second_child_costs_no_further_copy) {
  Segment& segment = *Pool::Process().current();
  const pid_t first = Fork([&] { return block_[0] == 1 ? 0 : 1; });
  memset(block_, 2, kSize);
  const pid_t second = Fork([&] { return block_[0] == 2 ? 0 : 1; });
  EXPECT_EQ(StatusOf(first), 0);
  EXPECT_EQ(StatusOf(second), 0);
  EXPECT_GE(segment.Lend(block_, kSize), 0);
  EXPECT_EQ(block_[kSize - 1], 2);
}

TEST_F(PoolFork, the_fork_waits_until_no_other_rank_writes) {
  Segment& segment = *Pool::Process().current();
  segment.BeginLending();
  const Elsewhere elsewhere(segment);
  std::atomic<bool> forking{false};
  std::thread pass([&] {
    while (!forking) std::this_thread::yield();
    for (int i = 0; i < 100; ++i) std::this_thread::yield();  // so that the fork most likely waits
    elsewhere.at(segment, block_) = 7;
    segment.EndLending();
  });
  forking = true;
  const pid_t pid = Fork([&] { return block_[0] == 7 ? 0 : 1; });
  pass.join();
  EXPECT_EQ(StatusOf(pid), 0);
  EXPECT_EQ(block_[0], 7);
}

TEST_F(PoolFork, a_fork_does_not_wait_for_ever) {
  Segment& segment = *Pool::Process().current();
  segment.BeginLending();
  segment.BeforeFork(0);
  segment.AfterFork();
  segment.EndLending();
  EXPECT_GE(segment.Lend(block_ + 8, 8), 0) << "a lent block must not move";
}

TEST_F(PoolFork, threads_that_take_and_free_blocks_and_lend_them_meet_forks) {
  std::atomic<bool> stop{false};
  Segment& segment = *Pool::Process().current();
  std::thread worker([&] {
    while (!stop) {
      char* const mine = static_cast<char*>(Pool::Process().Take(kSize, 64));
      memset(mine, 8, kSize);
      segment.BeginLending();
      segment.Lend(mine, kSize);
      segment.EndLending();
      for (size_t i = 0; i < kSize; i += 1000) EXPECT_EQ(mine[i], 8);
      Pool::Process().Give(mine);
    }
  });
  for (int i = 0; i < 20; ++i) {
    block_[9] = static_cast<char>(i);
    EXPECT_EQ(StatusOf(Fork([&] { return block_[9] == i && block_[10] == 1 ? 0 : 1; })), 0);
  }
  stop = true;
  worker.join();
}

TEST_F(PoolFork, a_child_without_these_handlers_shares_nothing) {
  const pid_t pid = fork();
  if (pid == 0) {
    signal(SIGSEGV, SIG_DFL);
    block_[0] = 9;
    _exit(0);
  }
  EXPECT_NE(StatusOf(pid), 0) << "the child has written into its parent's memory";
  EXPECT_EQ(block_[0], 1);
}

TEST_F(PoolFork, blocks_of_a_retired_segment_are_inherited_as_any_memory) {
  Pool::Process().current()->Retire();
  const pid_t pid = Fork([&] {
    block_[0] = 4;
    return block_[1] == 1 ? 0 : 1;
  });
  EXPECT_EQ(StatusOf(pid), 0);
  EXPECT_EQ(block_[0], 1);
}

TEST_F(PoolFork, nothing_is_done_while_nothing_is_allocated) {
  Pool::Process().Give(block_);
  const pid_t pid = Fork([] { return 0; });
  EXPECT_EQ(StatusOf(pid), 0);
  block_ = static_cast<char*>(Pool::Process().Take(kSize, 64));
}

}  // namespace
}  // namespace hvdlite::pool::fork_testing
