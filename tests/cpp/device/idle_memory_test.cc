#include "device/idle_memory.h"

#include <gtest/gtest.h>

namespace hvdlite::device {
namespace {

TEST(IdleMemory, RoundsUpByAtMostAQuarter) {
  EXPECT_EQ(IdleMemory::ClassOf(0), 4096U);
  EXPECT_EQ(IdleMemory::ClassOf(4096), 4096U);
  EXPECT_EQ(IdleMemory::ClassOf(4097), 5120U);
  EXPECT_EQ(IdleMemory::ClassOf(size_t{128} << 20), size_t{128} << 20);
  for (size_t bytes = 4096; bytes < (size_t{1} << 32); bytes = bytes * 9 / 8 + 1) {
    const size_t rounded = IdleMemory::ClassOf(bytes);
    EXPECT_GE(rounded, bytes);
    EXPECT_LE(rounded, bytes + bytes / 4 + 1);
    EXPECT_EQ(IdleMemory::ClassOf(rounded), rounded) << bytes;
  }
}

TEST(IdleMemory, GivesTheBlockThatWasUsedLast) {
  IdleMemory idle(1 << 20);
  int blocks[3];
  for (int& block : blocks) EXPECT_TRUE(idle.Put(&block, 5000).empty());
  EXPECT_EQ(idle.Take(100), nullptr);
  EXPECT_EQ(idle.Take(5000), &blocks[2]);
  EXPECT_EQ(idle.Take(5001), &blocks[1]);
  EXPECT_EQ(idle.Take(5120), &blocks[0]);
  EXPECT_EQ(idle.Take(5000), nullptr);
}

TEST(IdleMemory, LetsGoOfTheLongestUnusedBeyondItsBound) {
  IdleMemory idle(3 * 4096);
  int blocks[5];
  EXPECT_TRUE(idle.Put(&blocks[0], 4096).empty());
  EXPECT_TRUE(idle.Put(&blocks[1], 4096).empty());
  EXPECT_TRUE(idle.Put(&blocks[2], 4096).empty());
  EXPECT_EQ(idle.Put(&blocks[3], 8192), (std::vector<void*>{&blocks[0], &blocks[1]}));
  EXPECT_EQ(idle.Put(&blocks[4], 65536), (std::vector<void*>{&blocks[2], &blocks[3], &blocks[4]}));
  EXPECT_TRUE(idle.Clear().empty());
}

}  // namespace
}  // namespace hvdlite::device
