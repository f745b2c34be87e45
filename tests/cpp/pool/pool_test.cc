#include "pool/pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace hvdlite::pool::pool_testing {
namespace {

constexpr size_t kSize = 20'000;
constexpr size_t kRoom = size_t{16} << 20;

// Of the test's thread.
int g_inside = 0;

// Never destroyed, as the process's own.
Pool& NewPool() {
  Pool* const pool = new Pool(kRoom);
  static auto* const all = new std::vector<Pool*>;  // no leak
  all->push_back(pool);
  return *pool;
}

Segment* Open(Pool& pool) {
  Segment* segment = nullptr;
  const Status opened = pool.Open(0, &segment);
  EXPECT_TRUE(opened.ok()) << opened.ToString();
  pool.Expect(kSize, 1);
  pool.Arm(true);
  return segment;
}

TEST(Pool, holds_nothing_before_a_job_opens_it) {
  Pool& pool = NewPool();
  int on_the_stack = 0;
  EXPECT_FALSE(pool.Contains(nullptr));
  EXPECT_FALSE(pool.Contains(&on_the_stack));
  EXPECT_EQ(pool.OffsetOf(&on_the_stack), -1);
  EXPECT_EQ(pool.stats().bytes, 0u);
  pool.Expect(kSize, 1);
  pool.Arm(true);
  EXPECT_EQ(pool.Take(kSize, 64), nullptr);
  EXPECT_FALSE(pool.opened().ok());
}

TEST(Pool, serves_sizes_that_were_expected_before_it_was_opened) {
  Pool& pool = NewPool();
  pool.Expect(kSize, 1);
  pool.Arm(true);
  Segment* segment = nullptr;
  ASSERT_TRUE(pool.Open(0, &segment).ok());
  void* const block = pool.Take(kSize, 64);
  ASSERT_NE(block, nullptr);
  EXPECT_TRUE(pool.Contains(block));
  EXPECT_EQ(pool.OffsetOf(block), 0);
  EXPECT_EQ(pool.OffsetOf(static_cast<char*>(block) + 5), 5);
  pool.Give(block);
}

TEST(Pool, an_alignment_that_the_c_library_refuses_is_left_to_it) {
  Pool& pool = NewPool();
  Open(pool);
  for (const size_t alignment : {size_t{0}, size_t{4}, size_t{24}, size_t{1} << 20})
    EXPECT_EQ(pool.Take(kSize, alignment), nullptr) << alignment;
  for (const size_t alignment : {size_t{8}, size_t{64}, size_t{4096}})
    EXPECT_NE(pool.Take(kSize, alignment), nullptr) << alignment;
}

TEST(Pool, hands_out_nothing_outside_the_gate_or_unless_it_is_armed) {
  Pool& pool = NewPool();
  Open(pool);
  pool.Gate([] { return g_inside; }, -1);
  g_inside = -1;
  EXPECT_EQ(pool.Take(kSize, 64), nullptr);
  EXPECT_EQ(pool.stats().misses, 0u);
  g_inside = 7;
  void* const block = pool.Take(kSize, 64);
  EXPECT_NE(block, nullptr);
  pool.Arm(false);
  EXPECT_EQ(pool.Take(kSize, 64), nullptr);
  pool.Give(block);
  EXPECT_EQ(pool.stats().live, 0u);
}

TEST(Pool, jobs_follow_one_another_in_one_segment) {
  Pool& pool = NewPool();
  Segment* const first = Open(pool);
  EXPECT_EQ(Open(pool), first);
}

TEST(Pool, a_retired_segment_is_followed_by_another_and_its_blocks_live_on) {
  Pool& pool = NewPool();
  Segment* const first = Open(pool);
  char* const block = static_cast<char*>(pool.Take(kSize, 64));
  memset(block, 1, kSize);
  first->Retire();
  EXPECT_EQ(pool.Take(kSize, 64), nullptr);
  EXPECT_EQ(pool.OffsetOf(block), -1) << "no other rank may be led there";
  Segment* const second = Open(pool);
  EXPECT_NE(second, first);
  void* const other = pool.Take(kSize, 64);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(block[kSize - 1], 1);
  EXPECT_EQ(pool.SizeOf(block), kSize);
  pool.Give(block);
  EXPECT_EQ(first->live(), 0u);
  EXPECT_EQ(second->live(), 1u);
}

TEST(Pool, any_number_of_jobs_may_fail) {
  Pool& pool = NewPool();
  for (int job = 0; job < 40; ++job) {
    Segment* const segment = Open(pool);
    char* const block = static_cast<char*>(pool.Take(kSize, 64));
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(block[0], 0) << "memory of its own";
    block[0] = 1;
    segment->Retire();
    pool.Give(block);
  }
}

TEST(Pool, a_program_that_keeps_the_gradients_of_many_failed_jobs_gets_no_more) {
  Pool& pool = NewPool();
  std::vector<void*> kept;
  for (int job = 0; job < 8; ++job) {
    Segment* const segment = Open(pool);
    kept.push_back(pool.Take(kSize, 64));
    segment->Retire();
  }
  Segment* segment = nullptr;
  EXPECT_EQ(pool.Open(0, &segment).code(), StatusCode::kUnsupported);
  EXPECT_EQ(pool.Take(kSize, 64), nullptr);
  pool.Give(kept[3]);
  EXPECT_TRUE(pool.Open(0, &segment).ok());
  for (void* block : kept) {
    if (block != kept[3]) pool.Give(block);
  }
}

TEST(Pool, freeing_what_is_no_block_is_reported_once_and_ignored) {
  Pool& pool = NewPool();
  Open(pool);
  char* const block = static_cast<char*>(pool.Take(kSize, 64));
  ::testing::internal::CaptureStderr();
  pool.Give(block + 64);
  pool.Give(block + 128);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_EQ(pool.stats().live, 1u);
  pool.Give(block);
}

TEST(Pool, a_child_gets_no_blocks_and_frees_none) {
  Pool& pool = NewPool();
  Open(pool);
  void* const block = pool.Take(kSize, 64);
  pool.Disown();
  EXPECT_EQ(pool.Take(kSize, 64), nullptr);
  pool.Give(block);
  EXPECT_EQ(pool.stats().live, 1u);
}

TEST(Pool, in_a_child_only_inherited_blocks_are_its_own) {
  Pool& pool = NewPool();
  const Segment* const segment = Open(pool);
  char* const block = static_cast<char*>(pool.Take(kSize, 64));
  char* const freed = static_cast<char*>(pool.Take(kSize, 64));
  pool.Give(freed);
  char* const never_used = segment->base() + segment->bytes() - 64;
  EXPECT_TRUE(pool.Owns(freed)) << "freed twice, which is reported";
  EXPECT_TRUE(pool.Owns(never_used));
  pool.Disown();
  EXPECT_TRUE(pool.Owns(block));
  for (const char* other : {freed, freed + 64, block + 64, never_used})
    EXPECT_FALSE(pool.Owns(other)) << other - segment->base();
}

TEST(Pool, tensors_come_from_it_in_a_job_whether_it_is_armed_or_not_and_never_in_a_child) {
  Pool& pool = NewPool();
  EXPECT_EQ(pool.Allocate(kSize), nullptr);
  Segment* const segment = Open(pool);
  pool.Arm(false);
  void* const tensor = pool.Allocate(kSize);
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(pool.OffsetOf(tensor), 0);
  pool.Give(tensor);
  EXPECT_EQ(segment->live(), 0u);
  pool.Disown();
  EXPECT_EQ(pool.Allocate(kSize), nullptr);
}

}  // namespace
}  // namespace hvdlite::pool::pool_testing
