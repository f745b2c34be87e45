// Where large blocks lie, and what the ranks of a host see of it.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>

#include "pool/memory.h"
#include "pool/peers.h"
#include "pool/segment.h"

namespace hvdlite::pool::huge_pages_testing {
namespace {

constexpr size_t kSmall = 20'000;
constexpr size_t kLarge = 2 * kHugePage + kSmall;
constexpr size_t kRoom = size_t{64} << 20;

// Of the mapping that holds `memory`: how much of it is on huge pages.
size_t HugeBytesAt(const void* memory) {
  std::ifstream file("/proc/self/smaps");
  const auto wanted = reinterpret_cast<uintptr_t>(memory);
  bool is_here = false;
  for (std::string line; std::getline(file, line);) {
    uintptr_t first = 0;
    uintptr_t end = 0;
    size_t kib = 0;
    if (sscanf(line.c_str(), "%zx-%zx ", &first, &end) == 2)
      is_here = first <= wanted && wanted < end;
    else if (is_here && sscanf(line.c_str(), "ShmemPmdMapped: %zu", &kib) == 1)
      return kib << 10;
  }
  return 0;
}

// Shared memory of the test's own: this system may have no huge pages, or too few left.
bool SystemHasHugePages(size_t bytes) {
  const Fd fd(memfd_create("probe", MFD_CLOEXEC));
  char* const memory = ReserveAddresses(bytes);
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_TRUE(MapFile(memory, bytes, fd.get(), 0, MAP_SHARED));
  Populate(memory, bytes);
  MakeHuge(memory, bytes);
  const bool has = HugeBytesAt(memory) == bytes;
  munmap(memory, bytes);
  return has;
}

std::unique_ptr<Segment> Make() {
  std::unique_ptr<Segment> segment;
  EXPECT_TRUE(Segment::Create(ReserveAddresses(kRoom), kRoom, &segment).ok());
  segment->Expect(kSmall, 1);
  segment->Expect(kLarge, 2);
  segment->Limit(kRoom);
  return segment;
}

class PoolHugePages : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!SystemHasHugePages(4 * kHugePage))
      GTEST_SKIP() << "this system puts no shared memory on huge pages";
    segment_ = Make();
    small_ = static_cast<char*>(segment_->Take(kSmall));
    large_ = static_cast<char*>(segment_->Take(kLarge));
    other_ = static_cast<char*>(segment_->Take(kLarge));
    ASSERT_TRUE(small_ != nullptr && large_ != nullptr && other_ != nullptr);
    memset(large_, 1, kLarge);
  }

  std::unique_ptr<Segment> segment_;
  char* small_ = nullptr;
  char* large_ = nullptr;
  char* other_ = nullptr;
};

TEST_F(PoolHugePages, large_blocks_lie_there) {
  EXPECT_EQ(HugeBytesAt(large_), 4 * kHugePage);
  EXPECT_EQ(segment_->Lend(large_, kLarge), large_ - segment_->base());
  EXPECT_EQ(segment_->stats().bytes, RoundToPages(kSmall) + 2 * RoundToPages(kLarge));
}

TEST_F(PoolHugePages, another_rank_sees_them_there) {
  Peers peers(2, 0, nullptr);
  ASSERT_TRUE(peers.Map(1, segment_->fd()).ok());
  char* const seen = peers.At(1, large_ - segment_->base(), kLarge);
  for (size_t at = 0; at < kLarge; at += PageBytes()) seen[at] = 2;
  EXPECT_EQ(large_[kLarge - kLarge % PageBytes()], 2);
  EXPECT_EQ(HugeBytesAt(seen), 2 * kHugePage);
}

TEST_F(PoolHugePages, a_block_is_there_again_when_it_is_lent_after_a_fork) {
  segment_->BeforeFork(0);
  segment_->AfterFork();
  large_[0] = 3;
  EXPECT_GE(segment_->Lend(large_, kLarge), 0);
  EXPECT_EQ(large_[0], 3);
  EXPECT_EQ(large_[kLarge - 1], 1);
  EXPECT_EQ(HugeBytesAt(large_), 2 * kHugePage);
}

// Whatever the system puts there.
TEST(PoolHugePagesAnywhere, large_blocks_begin_on_one_and_small_ones_on_a_page) {
  const auto segment = Make();
  for (size_t bytes : {kSmall, kLarge, kSmall, kLarge}) {
    char* const block = static_cast<char*>(segment->Take(bytes));
    ASSERT_NE(block, nullptr);
    const size_t page = bytes < kHugePage ? PageBytes() : kHugePage;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % page, 0u);
    memset(block, 1, bytes);
  }
}

TEST(PoolHugePagesAnywhere, a_fork_copies_no_addresses_between_large_blocks) {
  const auto segment = Make();
  char* const large = static_cast<char*>(segment->Take(kLarge));
  const char* const other = static_cast<char*>(segment->Take(kLarge));
  ASSERT_GT(other - large, static_cast<ptrdiff_t>(RoundToPages(kLarge)));
  segment->BeforeFork(0);
  segment->AfterFork();
  unsigned char resident = 1;
  ASSERT_EQ(mincore(large + RoundToPages(kLarge), PageBytes(), &resident), 0);
  EXPECT_EQ(resident & 1, 0);
}

TEST(PoolAddresses, are_whole_pages_and_no_more) {
  char* const first = ReserveAddresses(kHugePage + 1);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % kHugePage, 0u);
  char* const end = first + kHugePage + PageBytes();
  EXPECT_EQ(msync(end - PageBytes(), PageBytes(), MS_ASYNC), 0);
  EXPECT_EQ(msync(end, PageBytes(), MS_ASYNC), -1) << "addresses that would never be given back";
  EXPECT_EQ(errno, ENOMEM);
  munmap(first, end - first);
}

}  // namespace
}  // namespace hvdlite::pool::huge_pages_testing
