#include "pool/fork.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>

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

TEST_F(PoolFork, a_child_that_dies_before_its_copies_are_made_holds_no_parent_up) {
  BeforeFork();
  const pid_t pid = fork();
  if (pid == 0) _exit(7);
  AfterForkInParent();
  EXPECT_EQ(WEXITSTATUS(StatusOf(pid)), 7);
  EXPECT_EQ(block_[0], 1);
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
