#include "pool/allocation_history.h"

#include <gtest/gtest.h>

#include <string>

namespace hvdlite::pool::habit_testing {
namespace {

// A pass, request by request: 'g' outlives the pass, 't' is freed before the next request, 'e' is
// freed when the pass ends. Returns for each request whether the pool has served it.
class Passes {
 public:
  std::string Run(const std::string& requests) {
    ++pass_;
    std::string served;
    std::string at_end;
    uint32_t page = 0;
    for (const char each : requests) {
      const bool wanted = history.Wants(pass_);
      served += wanted ? 'p' : '-';
      if (!wanted) continue;
      history.Served(pass_, page);
      if (each == 't') {
        history.Freed(pass_, page);  // the next request gets the same page
        continue;
      }
      if (each == 'e') at_end += static_cast<char>(page);
      ++page;
    }
    for (const char freed : at_end) history.Freed(pass_, static_cast<uint32_t>(freed));
    return served;
  }

  AllocationHistory history;

 private:
  int pass_ = 0;
};

TEST(PoolHabit, requests_that_their_pass_frees_are_left_to_the_c_library) {
  Passes passes;
  EXPECT_EQ(passes.Run("tgetg"), "ppppp");
  EXPECT_EQ(passes.Run("tgetg"), "ppppp");  // as many requests as before are known from here on
  for (int i = 0; i < 5; ++i) EXPECT_EQ(passes.Run("tgetg"), "-p--p");
}

TEST(PoolHabit, another_number_of_requests_is_learned_anew) {
  Passes passes;
  for (int i = 0; i < 3; ++i) passes.Run("tg");
  EXPECT_EQ(passes.Run("tg"), "-p");
  EXPECT_EQ(passes.Run("gtg"), "-pp");  // not known to differ before it ends
  EXPECT_EQ(passes.Run("gtg"), "ppp");
  EXPECT_EQ(passes.Run("gtg"), "p-p");
}

TEST(PoolHabit, a_gradient_that_later_passes_add_to_is_none_of_the_temporary_tensors) {
  Passes passes;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(passes.Run("g"), "p");
    EXPECT_EQ(passes.Run("t"), "p");
    EXPECT_EQ(passes.Run("t"), "p");
  }
}

TEST(PoolHabit, passes_in_turns_disturb_no_gradient) {
  AllocationHistory history;
  for (int i = 0; i < 20; ++i) {
    const int one = 2 * i + 1, two = 2 * i + 2;
    for (const int pass : {one, two, one, two}) {
      ASSERT_TRUE(history.Wants(pass));
      history.Served(pass, static_cast<uint32_t>(pass));
    }
  }
}

TEST(PoolHabit, a_gradient_found_elsewhere_ends_the_guessing) {
  Passes passes;
  for (int i = 0; i < 3; ++i) passes.Run("t");
  EXPECT_EQ(passes.Run("g"), "-");
  passes.history.Missed();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(passes.Run("t"), "p");
}

TEST(PoolHabit, a_gradient_found_elsewhere_before_anything_is_guessed_ends_nothing) {
  Passes passes;
  passes.history.Missed();
  for (int i = 0; i < 2; ++i) passes.Run("tg");
  EXPECT_EQ(passes.Run("tg"), "-p");
}

TEST(PoolHabit, without_a_pass_everything_is_served) {
  AllocationHistory history;
  for (uint32_t i = 0; i < 5; ++i) {
    EXPECT_TRUE(history.Wants(AllocationHistory::kNoPass));
    history.Served(AllocationHistory::kNoPass, i);
    history.Freed(AllocationHistory::kNoPass, i);
  }
}

TEST(PoolHabit, requests_beyond_the_sixty_fourth_are_served) {
  Passes passes;
  const std::string many(100, 't');
  for (int i = 0; i < 3; ++i) passes.Run(many);
  EXPECT_EQ(passes.Run(many), std::string(64, '-') + std::string(36, 'p'));
}

}  // namespace
}  // namespace hvdlite::pool::habit_testing
