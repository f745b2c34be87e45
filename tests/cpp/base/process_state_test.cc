#include "base/process_state.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdlite {
namespace {

TEST(ProcessState, is_read_behind_any_command) {
  EXPECT_EQ(ParseState("7 (python) S 1 7"), ProcessState::kWorks);
  EXPECT_EQ(ParseState("7 (a) T (b) R 1 7"), ProcessState::kWorks);
  EXPECT_EQ(ParseState("7 (python) T 1 7"), ProcessState::kStopped);
  EXPECT_EQ(ParseState("7 (python) t 1 7"), ProcessState::kTraced);
  EXPECT_EQ(ParseState("7 (python) D 1 7"), ProcessState::kInKernel);
  EXPECT_EQ(ParseState("7 (python) Z 1 7"), ProcessState::kEnded);
  EXPECT_EQ(ParseState("7 (python) "), ProcessState::kUnknown);
  EXPECT_EQ(ParseState(""), ProcessState::kUnknown);
}

TEST(ProcessState, is_what_the_kernel_says) {
  EXPECT_EQ(StateOf(getpid()), ProcessState::kWorks);
  EXPECT_EQ(StateOf(0), ProcessState::kUnknown);
  const pid_t child = fork();
  if (child == 0) {
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  EXPECT_EQ(StateOf(child), ProcessState::kStopped);
  EXPECT_EQ(WhyItRests(StateOf(child), child), "its process " + std::to_string(child) +
                                                   " is stopped (SIGSTOP); `kill -CONT " +
                                                   std::to_string(child) + "` lets it go on");
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WhyItRests(ProcessState::kWorks, child), "");
}

}  // namespace
}  // namespace hvdlite
