#include "transport/shm/pipe.h"

#include <gtest/gtest.h>

#include <random>

#include "testing/in_threads.h"
#include "testing/watchdog.h"

namespace hvdlite::transport::shm {
namespace {

class PipeTest : public ::testing::Test {
 protected:
  void Open(size_t capacity) {
    ASSERT_TRUE(HostSegment::Create(2, &segment_).ok());
    void* memory = nullptr;
    ASSERT_TRUE(segment_->Map(segment_->regions_begin(), Pipe::Footprint(capacity), &memory).ok());
    for (int r = 0; r < 2; ++r) {
      bells_[r] = std::make_unique<Doorbells>(segment_.get(), r, std::vector<int>());
      ends_[r] = std::make_unique<Pipe>(memory, capacity, r == 0, 1 - r, 1 - r, bells_[r].get());
    }
  }
  std::unique_ptr<HostSegment> segment_;
  std::unique_ptr<Doorbells> bells_[2];
  std::unique_ptr<Pipe> ends_[2];
};

TEST_F(PipeTest, it_fills_and_empties_and_wraps) {
  Open(128);
  std::string data(200, 'x'), got(200, '\0');
  size_t moved = 0;
  for (int round = 0; round < 50; ++round) {
    ASSERT_TRUE(ends_[0]->TryReceive(got.data(), 1, &moved).ok());
    ASSERT_EQ(moved, 0u);
    ASSERT_TRUE(ends_[0]->TrySend(data.data(), 200, &moved).ok());
    ASSERT_EQ(moved, 128u);
    ASSERT_TRUE(ends_[0]->TrySend(data.data(), 1, &moved).ok());
    ASSERT_EQ(moved, 0u);
    ASSERT_TRUE(ends_[1]->TryReceive(got.data(), 41, &moved).ok());
    ASSERT_EQ(moved, 41u);
    ASSERT_TRUE(ends_[0]->TrySend(data.data(), 5, &moved).ok());
    ASSERT_EQ(moved, 5u);
    ASSERT_TRUE(ends_[1]->TryReceive(got.data(), 200, &moved).ok());
    ASSERT_EQ(moved, 92u);
  }
}

// Both directions at once, sleeping whenever nothing fits: what was sent arrives, and no sleep
// outlives its reason.
TEST_F(PipeTest, random_sizes_in_both_directions_with_sleeps) {
  for (const size_t capacity : {size_t{128}, size_t{1024}, size_t{32768}}) {
    Open(capacity);
    const testing::Watchdog watchdog(120);
    constexpr uint64_t kBytes = 3 << 20;
    const auto byte = [](int direction, uint64_t at) {
      return static_cast<char>(at * 7 + at / 251 + static_cast<uint64_t>(direction));
    };
    std::atomic<int> timeouts{0};
    InThreads(2, [&](int r) {
      std::mt19937 random(static_cast<uint32_t>(r) + static_cast<uint32_t>(capacity));
      uint64_t sent = 0, received = 0;
      std::vector<char> buffer(2 * capacity);
      const auto turn = [&] {
        bool moved_any = false;
        size_t moved = 0;
        if (sent < kBytes) {
          const size_t want = std::min<uint64_t>(1 + random() % buffer.size(), kBytes - sent);
          for (size_t i = 0; i < want; ++i) buffer[i] = byte(r, sent + i);
          EXPECT_TRUE(ends_[r]->TrySend(buffer.data(), want, &moved).ok());
          sent += moved;
          moved_any |= moved > 0;
        }
        // As FrameChannel does: until nothing more comes.
        while (received < kBytes) {
          EXPECT_TRUE(
              ends_[r]->TryReceive(buffer.data(), 1 + random() % buffer.size(), &moved).ok());
          if (moved == 0) break;
          for (size_t i = 0; i < moved; ++i) {
            if (buffer[i] != byte(1 - r, received + i)) {
              ADD_FAILURE() << "byte " << received + i;
              return false;
            }
          }
          received += moved;
          moved_any = true;
        }
        return moved_any;
      };
      while (sent < kBytes || received < kBytes) {
        if (turn()) continue;
        const uint32_t ticket = bells_[r]->BeginSleep();
        if (!turn()) {
          std::vector<pollfd> fds;
          if (bells_[r]->Sleep(ticket, &fds, 60 * kSecond) == FutexResult::kTimeout) ++timeouts;
        }
        bells_[r]->EndSleep();
      }
    });
    EXPECT_EQ(timeouts, 0) << "capacity " << capacity;
  }
}

}  // namespace
}  // namespace hvdlite::transport::shm
