#include "pool/peers.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <memory>

namespace hvdlite::pool::peers_testing {
namespace {

constexpr size_t kSize = 20'000;
constexpr size_t kRoom = size_t{1} << 20;

std::unique_ptr<Segment> Make() {
  std::unique_ptr<Segment> segment;
  EXPECT_TRUE(Segment::Create(nullptr, kRoom, &segment).ok());
  segment->Expect(kSize, 1);
  return segment;
}

TEST(PoolPeers, read_and_write_each_others_blocks) {
  const auto mine = Make(), theirs = Make();
  Peers peers(2, 0, mine.get());
  ASSERT_TRUE(peers.Map(1, theirs->fd()).ok());
  char* const block = static_cast<char*>(theirs->Take(kSize));
  char* const seen = peers.At(1, block - theirs->base(), kSize);
  ASSERT_NE(seen, nullptr);
  seen[kSize - 1] = 4;
  EXPECT_EQ(block[kSize - 1], 4);
}

TEST(PoolPeers, an_offset_outside_the_segment_leads_nowhere) {
  const auto mine = Make();
  const Peers peers(2, 0, mine.get());
  constexpr auto kEnd = static_cast<int64_t>(kRoom);
  EXPECT_NE(peers.At(0, 0, kRoom), nullptr);
  EXPECT_NE(peers.At(0, kEnd - 4, 4), nullptr);
  EXPECT_EQ(peers.At(0, kEnd - 4, 5), nullptr);
  EXPECT_EQ(peers.At(0, kEnd + 1, 0), nullptr);
  EXPECT_EQ(peers.At(0, -1, 4), nullptr);
  EXPECT_EQ(peers.At(0, INT64_MIN, 4), nullptr);
  EXPECT_EQ(peers.At(0, INT64_MAX, 4), nullptr);
  EXPECT_EQ(peers.At(0, 4, SIZE_MAX), nullptr);
  EXPECT_EQ(peers.At(1, 0, 4), nullptr) << "a rank that shares nothing";
}

TEST(PoolPeers, a_file_that_its_owner_could_shrink_is_refused) {
  const int fd = memfd_create("unsealed", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(fd, kRoom), 0);
  Peers peers(2, 0, nullptr);
  EXPECT_FALSE(peers.Map(1, fd).ok());
  EXPECT_EQ(peers.At(1, 0, 4), nullptr);
  close(fd);
  EXPECT_FALSE(peers.Map(1, -1).ok());
}

TEST(PoolPeers, only_own_memory_that_is_still_shared_has_an_offset) {
  const auto mine = Make();
  Peers peers(1, 0, mine.get());
  char* const block = static_cast<char*>(mine->Take(kSize));
  int elsewhere = 0;
  EXPECT_EQ(peers.Lend(block + 8, kSize - 8), block + 8 - mine->base());
  EXPECT_EQ(peers.Lend(&elsewhere, sizeof(elsewhere)), -1);
  EXPECT_EQ(peers.Lend(block, kRoom + 1), -1);
  mine->Retire();
  EXPECT_EQ(peers.Lend(block, kSize), -1);
  peers.GiveUp();
  EXPECT_EQ(peers.Lend(block, kSize), -1);
}

}  // namespace
}  // namespace hvdlite::pool::peers_testing
