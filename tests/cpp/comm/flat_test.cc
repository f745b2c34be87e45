#include "comm/flat.h"

#include <gtest/gtest.h>

#include <random>

namespace hvdlite::comm {
namespace {

TEST(Flat, runs_begin_at_multiples_of_the_alignment) {
  char memory[200];
  Flat flat;
  for (size_t bytes : {4, 0, 64, 68, 0}) flat.Add(memory, bytes, 64);
  EXPECT_EQ(flat.size(), 256u);  // the last run is empty, but begins on a line, too
  std::vector<std::vector<size_t>> visits;
  flat.Walk(0, flat.size(), [&](char* data, size_t at, size_t bytes) {
    visits.push_back({static_cast<size_t>(data - memory), at, bytes});
  });
  EXPECT_EQ(visits, (std::vector<std::vector<size_t>>{{0, 0, 4}, {0, 64, 64}, {0, 128, 68}}));
}

TEST(Flat, any_cut_into_windows_visits_every_byte_once) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    const size_t align = random() % 2 == 0 ? 1 : 64;
    std::vector<std::vector<char>> runs(random() % 12);
    Flat flat;
    for (std::vector<char>& run : runs) {
      run.resize(random() % 3 == 0 ? 0 : random() % 400);
      flat.Add(run.data(), run.size(), align);
    }
    for (size_t begin = 0; begin < flat.size();) {
      const size_t end = std::min(flat.size(), begin + 1 + random() % 500);
      flat.Walk(begin, end, [&](char* data, size_t at, size_t bytes) {
        ASSERT_GT(bytes, 0u);
        ASSERT_GE(at, begin);
        ASSERT_LE(at + bytes, end);
        const size_t run = flat.RunAt(at);
        ASSERT_EQ(data, runs[run].data() + (at - flat.BeginOf(run)));
        ASSERT_EQ(data, flat.At(at));
        for (size_t b = 0; b < bytes; ++b) ++data[b];
      });
      begin = end;
    }
    for (const std::vector<char>& run : runs) {
      for (char count : run) ASSERT_EQ(count, 1);
    }
  }
}

}  // namespace
}  // namespace hvdlite::comm
