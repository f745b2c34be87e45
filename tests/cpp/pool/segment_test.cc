#include "pool/segment.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "pool/elsewhere.h"
#include "pool/memory.h"
#include "testing/in_threads.h"
#include "testing/watchdog.h"

namespace hvdlite::pool::segment_testing {
namespace {

constexpr size_t kSize = 20'000;  // of a gradient: no multiple of a page
constexpr size_t kRoom = size_t{64} << 20;

std::unique_ptr<Segment> Make(int64_t gradients = 1, size_t bytes = kRoom) {
  std::unique_ptr<Segment> segment;
  const Status made = Segment::Create(nullptr, bytes, &segment);
  EXPECT_TRUE(made.ok()) << made.ToString();
  segment->Expect(kSize, gradients);
  segment->Limit(bytes);
  return segment;
}

TEST(PoolSegment, serves_exactly_the_expected_sizes_on_whole_pages) {
  const auto segment = Make();
  EXPECT_EQ(segment->Take(kSize + 1), nullptr);
  EXPECT_EQ(segment->Take(kSize - 1), nullptr);
  void* const block = segment->Take(kSize);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % PageBytes(), 0u);
  EXPECT_TRUE(segment->Contains(block));
  EXPECT_EQ(segment->SizeOf(block), kSize);
  memset(block, 1, kSize);
  EXPECT_TRUE(segment->Give(block));
}

TEST(PoolSegment, small_sizes_are_not_served) {
  const auto segment = Make();
  segment->Expect(kSmallestBlock - 1, 1);
  EXPECT_FALSE(segment->Serves(kSmallestBlock - 1));
  segment->Expect(kSmallestBlock, 1);
  EXPECT_TRUE(segment->Serves(kSmallestBlock));
}

TEST(PoolSegment, a_request_that_its_pass_frees_is_left_to_the_c_library_from_the_third_pass_on) {
  const auto segment = Make(2);
  void* gradient = nullptr;
  for (int pass = 1; pass <= 4; ++pass) {
    void* const temporary = segment->Take(kSize, pass);
    EXPECT_EQ(temporary == nullptr, pass > 2) << pass;
    if (gradient != nullptr) segment->Give(gradient);
    gradient = segment->Take(kSize, pass);
    EXPECT_NE(gradient, nullptr) << pass;
    if (temporary != nullptr) segment->Give(temporary, pass);
  }
  EXPECT_EQ(segment->stats().misses, 0u);
  segment->Give(gradient);
  const std::vector<char> elsewhere(kSize);
  EXPECT_EQ(segment->Lend(elsewhere.data(), kSize), -1);
  void* const again = segment->Take(kSize, 5);
  EXPECT_NE(again, nullptr);
  segment->Give(again);
}

TEST(PoolSegment, the_block_freed_last_is_used_first) {
  const auto segment = Make();
  void* const one = segment->Take(kSize);
  void* const two = segment->Take(kSize);
  EXPECT_NE(one, two);
  segment->Give(one);
  segment->Give(two);
  EXPECT_EQ(segment->Take(kSize), two);
  EXPECT_EQ(segment->Take(kSize), one);
  EXPECT_EQ(segment->stats().hits, 4u);
  EXPECT_EQ(segment->stats().live, 2u);
  EXPECT_EQ(segment->stats().bytes, 2 * RoundToPages(kSize));
}

TEST(PoolSegment, a_size_has_eight_blocks_for_each_gradient) {
  const auto segment = Make(2);
  std::vector<void*> blocks;
  for (int64_t i = 0; i < 2 * Segment::kBlocksPerGradient; ++i)
    blocks.push_back(segment->Take(kSize));
  EXPECT_EQ(std::count(blocks.begin(), blocks.end(), nullptr), 0);
  EXPECT_EQ(segment->Take(kSize), nullptr);
  EXPECT_EQ(segment->stats().misses, 1u);
  segment->Give(blocks[3]);
  EXPECT_EQ(segment->Take(kSize), blocks[3]);
  segment->Expect(kSize, -2);
  EXPECT_EQ(segment->Take(kSize), nullptr);
}

TEST(PoolSegment, all_blocks_together_stay_within_the_limit) {
  const auto segment = Make(100, size_t{256} << 20);
  segment->Limit(3 * RoundToPages(kSize));
  for (int i = 0; i < 3; ++i) EXPECT_NE(segment->Take(kSize), nullptr);
  EXPECT_EQ(segment->Take(kSize), nullptr);
}

TEST(PoolSegment, the_usual_limit_is_three_times_the_gradients_and_some_more) {
  const size_t size = Budget::kSpareBytes / 4;
  const auto segment = Make(0, size_t{256} << 20);
  segment->Limit(0);
  segment->Expect(size, 2);
  int blocks = 0;
  while (segment->Take(size) != nullptr) ++blocks;
  EXPECT_EQ(blocks, 2 * 3 + 4);
}

TEST(PoolSegment, addresses_run_out_without_harm) {
  const auto segment = Make(100, 4 * RoundToPages(kSize));
  segment->Limit(kRoom);
  for (int i = 0; i < 4; ++i) EXPECT_NE(segment->Take(kSize), nullptr);
  EXPECT_EQ(segment->Take(kSize), nullptr);
}

TEST(PoolSegment, what_is_no_block_cannot_be_freed) {
  const auto segment = Make();
  char* const block = static_cast<char*>(segment->Take(kSize));
  EXPECT_FALSE(segment->Give(block + 64));
  EXPECT_FALSE(segment->Give(block + PageBytes()));
  EXPECT_EQ(segment->SizeOf(block + 64), 0u);
  EXPECT_TRUE(segment->Give(block));
  EXPECT_FALSE(segment->Give(block)) << "twice";
  EXPECT_EQ(segment->stats().live, 0u);
}

TEST(PoolSegment, a_full_table_of_sizes_refuses_more) {
  const auto segment = Make();
  for (size_t i = 0; i < 2000; ++i) segment->Expect(kSmallestBlock + i * 64, 1);
  EXPECT_TRUE(segment->Serves(kSmallestBlock));
  EXPECT_FALSE(segment->Serves(kSmallestBlock + size_t{1999} * 64));
  EXPECT_NE(segment->Take(kSmallestBlock + size_t{100} * 64), nullptr);
}

TEST(PoolSegment, a_low_limit_of_files_is_an_error_and_no_signal) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit low = before;
  low.rlim_cur = 1 << 20;
  setrlimit(RLIMIT_FSIZE, &low);
  std::unique_ptr<Segment> segment;
  const Status made = Segment::Create(nullptr, kRoom, &segment);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(made.code(), StatusCode::kUnsupported);
}

// Each block belongs to one thread at a time.
TEST(PoolSegment, threads_never_get_one_block_twice) {
  const testing::Watchdog watchdog(120);
  constexpr size_t kOther = 40'000;
  const auto segment = Make(4);
  std::atomic<int> mistakes{0};
  InThreads(4, [&](int t) {
    if (t == 0) segment->Expect(kOther, 1);
    for (int i = 0; i < 2000; ++i) {
      const size_t size = i % 3 == 0 ? kOther : kSize;
      char* const block = static_cast<char*>(segment->Take(size));
      if (block == nullptr) continue;
      const char mark = static_cast<char>(t * 50 + i % 50);
      block[0] = block[size - 1] = mark;
      if (i % 16 == 0) std::this_thread::yield();
      mistakes += block[0] != mark || block[size - 1] != mark;
      segment->Give(block);
    }
  });
  EXPECT_EQ(mistakes, 0);
  EXPECT_EQ(segment->stats().live, 0u);
}

TEST(PoolSegment, once_retired_others_cannot_reach_its_blocks) {
  const auto segment = Make();
  Elsewhere elsewhere(*segment);
  char* const block = static_cast<char*>(segment->Take(kSize));
  char* const unused = static_cast<char*>(segment->Take(kSize));
  segment->Give(unused);
  memset(block, 1, kSize);
  elsewhere.at(*segment, block) = 2;
  EXPECT_EQ(block[0], 2);
  segment->Retire();
  EXPECT_EQ(elsewhere.at(*segment, block + 1), 1) << "a rank may still be in its pass";
  elsewhere.at(*segment, block) = 3;
  elsewhere.at(*segment, block + kSize - 1) = 3;
  EXPECT_EQ(block[0], 2);
  EXPECT_EQ(block[kSize - 1], 1);
  block[0] = 4;
  EXPECT_NE(elsewhere.at(*segment, block), 4);
  EXPECT_EQ(segment->Take(kSize), nullptr);
  EXPECT_TRUE(segment->Give(block));
  segment->Retire();  // again: nothing
}

TEST(PoolSegment, its_memory_is_given_back_once_it_is_retired_and_empty) {
  const auto segment = Make();
  char* const block = static_cast<char*>(segment->Take(kSize));
  EXPECT_FALSE(segment->Release()) << "in use";
  segment->Retire();
  EXPECT_FALSE(segment->Release()) << "with an allocated block";
  block[0] = 1;
  segment->Give(block);
  EXPECT_TRUE(segment->Release());
  EXPECT_EQ(segment->fd(), -1);
}

TEST(PoolSegment, no_write_is_lost_while_it_is_retired) {
  const testing::Watchdog watchdog(120);
  for (int round = 0; round < 20; ++round) {
    const auto segment = Make();
    auto* const block = static_cast<volatile uint32_t*>(segment->Take(kSize));
    constexpr size_t kWords = kSize / sizeof(uint32_t);
    std::atomic<bool> started{false}, over{false};
    uint32_t written = 0;
    std::thread writer([&] {
      while (!over) {
        ++written;
        for (size_t i = 0; i < kWords; ++i) block[i] = written;
        started = true;
      }
    });
    while (!started) std::this_thread::yield();
    segment->Retire();
    over = true;
    writer.join();
    for (size_t i = 0; i < kWords; ++i) ASSERT_EQ(block[i], written) << i;
  }
}

TEST(PoolSegment, threads_may_ask_and_free_while_it_is_retired) {
  const testing::Watchdog watchdog(120);
  for (int round = 0; round < 20; ++round) {
    const auto segment = Make(4);
    std::vector<std::thread> threads;
    std::atomic<int> mistakes{0};
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        const char mark = static_cast<char>(t + 1);
        while (!segment->retired()) {
          char* const block = static_cast<char*>(segment->Take(kSize));
          if (block == nullptr) continue;
          memset(block, mark, kSize);
          mistakes += static_cast<int>(std::count(block, block + kSize, mark)) != kSize;
          mistakes += !segment->Give(block);
        }
      });
    }
    while (segment->stats().hits < 10) std::this_thread::yield();
    segment->Retire();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(mistakes, 0);
    EXPECT_EQ(segment->stats().live, 0u);
  }
}

}  // namespace
}  // namespace hvdlite::pool::segment_testing
