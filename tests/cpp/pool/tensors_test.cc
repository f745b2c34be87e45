// Blocks for tensors of the program: any size, any number, and memory that goes back.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "pool/elsewhere.h"
#include "pool/memory.h"
#include "pool/segment.h"
#include "testing/watchdog.h"

namespace hvdlite::pool::tensors_testing {
namespace {

constexpr size_t kSize = 100'000;  // no multiple of a page
constexpr size_t kRoom = size_t{512} << 20;

std::unique_ptr<Segment> Make(size_t bytes = kRoom) {
  std::unique_ptr<Segment> segment;
  const Status made = Segment::Create(nullptr, bytes, &segment);
  EXPECT_TRUE(made.ok()) << made.ToString();
  return segment;
}

char* Allocate(Segment* segment, size_t bytes) {
  return static_cast<char*>(segment->Allocate(bytes));
}

size_t MemoryOf(const Segment& segment) {
  struct stat file{};
  fstat(segment.fd(), &file);
  return static_cast<size_t>(file.st_blocks) * 512;
}

TEST(PoolTensors, have_any_size_and_no_more_than_a_sixteenth_in_vain) {
  const auto segment = Make();
  for (const size_t bytes : {kSmallestBlock, kSmallestBlock + 1, kSize, size_t{5'000'001}}) {
    char* const tensor = Allocate(segment.get(), bytes);
    ASSERT_NE(tensor, nullptr) << bytes;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor) % PageBytes(), 0u);
    EXPECT_GE(segment->SizeOf(tensor), bytes);
    EXPECT_LE(segment->SizeOf(tensor), RoundToPages(bytes) + bytes / Segment::kSizesPerDoubling);
    memset(tensor, 1, bytes);
    EXPECT_EQ(segment->Lend(tensor, bytes), tensor - segment->base());
  }
  EXPECT_EQ(segment->stats().live, 4u);
  EXPECT_EQ(segment->stats().hits, 0u) << "no gradients";
}

TEST(PoolTensors, what_cannot_be_had_is_null) {
  const auto segment = Make();
  for (const size_t bytes : {size_t{0}, kSmallestBlock - 1, kRoom + 1, SIZE_MAX, SIZE_MAX / 2})
    EXPECT_EQ(segment->Allocate(bytes), nullptr) << bytes;
  EXPECT_NE(segment->Allocate(kRoom / 2 + 1), nullptr);
  EXPECT_EQ(segment->Allocate(kRoom / 2 + 1), nullptr);
  EXPECT_EQ(segment->stats().live, 1u);
}

TEST(PoolTensors, the_block_freed_last_is_used_first_for_a_tensor_of_about_that_size) {
  const auto segment = Make();
  char* const one = Allocate(segment.get(), kSize);
  char* const two = Allocate(segment.get(), kSize);
  EXPECT_NE(one, two);
  EXPECT_TRUE(segment->Give(one));
  EXPECT_TRUE(segment->Give(two));
  EXPECT_FALSE(segment->Give(two)) << "twice";
  EXPECT_EQ(Allocate(segment.get(), kSize - 9), two);
  EXPECT_EQ(Allocate(segment.get(), kSize), one);
}

TEST(PoolTensors, freed_memory_goes_back_to_the_system_beyond_what_is_kept) {
  const auto segment = Make();
  const Elsewhere elsewhere(*segment);
  const size_t large = Budget::kMostKept + (1 << 20);
  for (int i = 0; i < 3; ++i) {
    char* const tensor = Allocate(segment.get(), large);
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor, segment->base()) << "addresses are used again";
    EXPECT_EQ(tensor[large - 1], 0) << "new memory";
    tensor[large - 1] = 1;
    EXPECT_EQ(elsewhere.at(*segment, tensor + large - 1), 1);
    EXPECT_GE(MemoryOf(*segment), large);
    EXPECT_GE(segment->stats().bytes, large);
    segment->Give(tensor);
    EXPECT_EQ(MemoryOf(*segment), 0u);
    EXPECT_EQ(segment->stats().bytes, 0u);
  }
  std::vector<char*> tensors;
  for (int i = 0; i < 100; ++i) tensors.push_back(Allocate(segment.get(), 1 << 20));
  for (char* tensor : tensors) segment->Give(tensor);
  EXPECT_EQ(MemoryOf(*segment), Budget::kMostKept);
}

TEST(PoolTensors, any_number_of_sizes_may_follow_one_another) {
  const auto segment = Make(size_t{64} << 20);
  for (size_t bytes = kSmallestBlock; bytes < (1 << 20); bytes += 333) {
    char* const tensor = Allocate(segment.get(), bytes);
    ASSERT_NE(tensor, nullptr) << bytes;
    tensor[bytes - 1] = 1;
    segment->Give(tensor);
  }
  EXPECT_EQ(segment->stats().live, 0u);
}

TEST(PoolTensors, all_blocks_together_stay_within_a_fixed_limit) {
  const auto segment = Make();
  segment->Limit(size_t{3} << 20);
  std::vector<char*> tensors;
  while (char* const tensor = Allocate(segment.get(), 1 << 20)) tensors.push_back(tensor);
  EXPECT_EQ(tensors.size(), 3u);
  segment->Expect(1 << 20, 1);
  EXPECT_EQ(segment->Take(1 << 20), nullptr);
}

TEST(PoolTensors, take_no_memory_from_gradients_under_the_usual_limit) {
  const auto segment = Make();
  segment->Limit(0);
  segment->Expect(kSize, 1);
  EXPECT_NE(segment->Allocate(3 * Budget::kSpareBytes), nullptr);
  EXPECT_NE(segment->Take(kSize), nullptr);
}

TEST(PoolTensors, a_gradient_and_a_tensor_of_one_size_share_no_block) {
  const auto segment = Make();
  segment->Limit(kRoom);
  segment->Expect(1 << 20, 1);
  void* const gradient = segment->Take(1 << 20);
  segment->Give(gradient);
  void* const tensor = segment->Allocate(1 << 20);
  EXPECT_NE(tensor, gradient);
  segment->Give(tensor);
  EXPECT_EQ(segment->Take(1 << 20), gradient);
}

TEST(PoolTensors, a_whole_tensor_is_in_the_file_again_when_it_is_lent_after_a_fork) {
  const auto segment = Make();
  const Elsewhere elsewhere(*segment);
  char* const tensor = Allocate(segment.get(), kSize);
  memset(tensor, 1, kSize);
  segment->BeforeFork(0);
  segment->AfterFork();
  tensor[0] = 2;
  EXPECT_EQ(elsewhere.at(*segment, tensor), 1);
  EXPECT_EQ(segment->Lend(tensor, kSize / 2), -1) << "other threads may write to the rest";
  EXPECT_EQ(segment->Lend(tensor, kSize), tensor - segment->base());
  EXPECT_EQ(elsewhere.at(*segment, tensor), 2);
  EXPECT_GE(segment->Lend(tensor + 8, kSize / 2), 0);
}

TEST(PoolTensors, a_tensor_freed_after_a_fork_comes_back_shared) {
  const auto segment = Make();
  const Elsewhere elsewhere(*segment);
  for (const size_t bytes : {kSize, 2 * Budget::kMostKept}) {
    char* const tensor = Allocate(segment.get(), bytes);
    segment->BeforeFork(0);
    segment->AfterFork();
    segment->Give(tensor);
    char* const again = Allocate(segment.get(), bytes);
    ASSERT_EQ(again, tensor);
    again[5] = 6;
    EXPECT_EQ(elsewhere.at(*segment, again + 5), 6);
    segment->Give(again);
  }
}

TEST(PoolTensors, of_a_retired_segment_live_on_and_go_back) {
  const auto segment = Make();
  const Elsewhere elsewhere(*segment);
  char* const tensor = Allocate(segment.get(), kSize);
  memset(tensor, 1, kSize);
  segment->Retire();
  elsewhere.at(*segment, tensor) = 2;
  EXPECT_EQ(tensor[0], 1);
  EXPECT_EQ(segment->Allocate(kSize), nullptr);
  EXPECT_EQ(segment->Lend(tensor, kSize), -1);
  EXPECT_FALSE(segment->Release());
  EXPECT_TRUE(segment->Give(tensor));
  EXPECT_EQ(elsewhere.at(*segment, tensor), 2) << "a rank may still be in its pass";
  EXPECT_TRUE(segment->Release());
}

TEST(PoolTensors, threads_allocate_and_free_them_between_forks_until_it_is_retired) {
  const testing::Watchdog watchdog(120);
  for (int round = 0; round < 5; ++round) {
    const auto segment = Make();
    std::vector<std::thread> threads;
    std::atomic<int> mistakes{0}, allocated{0};
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        const char mark = static_cast<char>(t + 1);
        for (size_t i = 0; !segment->retired(); ++i) {
          const size_t bytes = kSmallestBlock << (i + static_cast<size_t>(t)) % 4;
          char* const tensor = Allocate(segment.get(), bytes);
          if (tensor == nullptr) continue;
          memset(tensor, mark, bytes);
          segment->BeginLending();
          segment->Lend(tensor, bytes);
          segment->EndLending();
          mistakes += static_cast<size_t>(std::count(tensor, tensor + bytes, mark)) != bytes;
          mistakes += !segment->Give(tensor);
          ++allocated;
        }
      });
    }
    while (allocated < 100) {
      segment->BeforeFork(0);
      segment->AfterFork();
      std::this_thread::yield();
    }
    segment->Retire();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(mistakes, 0);
    EXPECT_EQ(segment->stats().live, 0u);
  }
}

}  // namespace
}  // namespace hvdlite::pool::tensors_testing
