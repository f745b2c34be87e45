#include "base/spans.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace hvdlite {
namespace {

TEST(Spans, a_moment_counts_once_however_many_spans_hold_it) {
  Spans spans;
  spans.Add(2, 10);
  spans.Add(0, 10);
  spans.Add(5, 10);
  EXPECT_EQ(spans.covered(), 10);
  spans.Add(20, 30);
  EXPECT_EQ(spans.covered(), 20);
  spans.Add(25, 31);
  EXPECT_EQ(spans.covered(), 21);
  spans.Add(5, 32);
  EXPECT_EQ(spans.covered(), 32);
  spans.Add(32, 32);
  EXPECT_EQ(spans.covered(), 32);
}

TEST(Spans, random_spans_cover_what_a_table_of_moments_says) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    Spans spans;
    std::vector<bool> covered(400, false);
    int end = 0;
    while ((end += static_cast<int>(random() % 12)) < 400) {
      const int begin = std::max(0, end - static_cast<int>(random() % 60));
      spans.Add(begin, end);
      for (int i = begin; i < end; ++i) covered[static_cast<size_t>(i)] = true;
    }
    ASSERT_EQ(spans.covered(), std::count(covered.begin(), covered.end(), true));
  }
}

}  // namespace
}  // namespace hvdlite
