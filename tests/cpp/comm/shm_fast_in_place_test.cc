#include "comm/shm/fast_in_place.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "testing/in_threads.h"
#include "testing/says.h"

namespace hvdlite::comm::shm {
namespace {

constexpr size_t kRoom = size_t{16} << 20;

// Members with a segment each, at one exchange.
class SharingMembers {
 public:
  explicit SharingMembers(int count) : memory_(FastExchange::Footprint(count) + kAlign) {
    auto at = reinterpret_cast<uintptr_t>(memory_.data());
    at = (at + kAlign - 1) / kAlign * kAlign;
    std::vector<int> local_ranks;
    for (int m = 0; m < count; ++m) {
      local_ranks.push_back(m);
      exchanges_.push_back(std::make_unique<FastExchange>(reinterpret_cast<void*>(at), m, count));
      segments_.emplace_back();
      EXPECT_TRUE(pool::Segment::Create(nullptr, kRoom, &segments_.back()).ok());
      segments_.back()->Limit(kRoom);
    }
    for (int m = 0; m < count; ++m) {
      peers_.push_back(std::make_unique<pool::Peers>(count, m, segments_[size_t(m)].get()));
      for (int other = 0; other < count; ++other)
        peers_.back()->Add(other, *segments_[size_t(other)]);
      shared_.push_back({peers_.back().get(), local_ranks});
    }
  }

  FastExchange& exchange(int m) { return *exchanges_[size_t(m)]; }
  const SharedTensors& shared(int m) { return shared_[size_t(m)]; }
  pool::Segment& segment(int m) { return *segments_[size_t(m)]; }
  char* Allocate(int m, size_t bytes) {
    return static_cast<char*>(segment(m).Allocate(std::max(bytes, pool::kSmallestBlock)));
  }

 private:
  static constexpr size_t kAlign = 4096;
  std::vector<char> memory_;  // zero
  std::vector<std::unique_ptr<FastExchange>> exchanges_;
  std::vector<std::unique_ptr<pool::Segment>> segments_;
  std::vector<std::unique_ptr<pool::Peers>> peers_;
  std::vector<SharedTensors> shared_;
};

class FastInPlaceOf : public ::testing::TestWithParam<int> {};

TEST_P(FastInPlaceOf, gives_all_members_the_sum_in_their_order) {
  const int count = GetParam();
  SharingMembers members(count);
  const size_t lengths[] = {1, 15, 16, 17, 4097, 65536};
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kInt64}) {
    for (const size_t length : lengths) {
      const size_t bytes = std::min(length * SizeOf(dtype), FastInPlace::kMostBytes);
      const auto elements = static_cast<int64_t>(bytes / SizeOf(dtype));
      kernels::ReduceSpec spec;
      spec.dtype = dtype;
      spec.postscale = 0.5;
      std::minstd_rand random(static_cast<unsigned>(length));
      std::vector<std::vector<char>> inputs(static_cast<size_t>(count));
      for (std::vector<char>& input : inputs) input.resize(bytes);
      std::vector<const void*> sources;
      std::vector<char*> mine;
      for (int m = 0; m < count; ++m) {
        for (size_t i = 0; i < bytes; ++i)  // no exponent of all ones, which would be no number
          inputs[size_t(m)][i] = static_cast<char>(random() % 60);
        sources.push_back(inputs[size_t(m)].data());
        mine.push_back(members.Allocate(m, bytes));
        ASSERT_NE(mine.back(), nullptr);
        memcpy(mine.back(), sources.back(), bytes);
      }
      std::vector<char> expected(bytes);
      kernels::Reduce(spec, expected.data(), nullptr, sources.data(), count, elements);
      InThreads(count, [&](int me) {
        FastInPlace place(&members.exchange(me), members.shared(me), bytes);
        ASSERT_TRUE(place.Lend(mine[size_t(me)]));
        place.Offer();
        bool complete = members.exchange(me).Arrive({3, 4});
        while (!complete) complete = members.exchange(me).Complete();
        ASSERT_TRUE(members.exchange(me).Agrees());
        ASSERT_TRUE(place.Accept().ok());
        members.exchange(me).Conclude();
        place.Reduce(spec);
        while (!place.AllFinished()) sched_yield();
        EXPECT_EQ(memcmp(mine[size_t(me)], expected.data(), bytes), 0);
      });
      for (int m = 0; m < count; ++m) {
        EXPECT_FALSE(members.segment(m).retired());
        members.segment(m).Give(mine[size_t(m)]);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Members, FastInPlaceOf, ::testing::Values(2, 3, 5));

TEST(FastInPlace, lends_only_what_lies_in_the_shared_memory) {
  SharingMembers members(2);
  std::vector<char> elsewhere(100'000);
  FastInPlace place(&members.exchange(0), members.shared(0), elsewhere.size());
  EXPECT_FALSE(place.Lend(elsewhere.data()));
}

TEST(FastInPlace, retires_the_memory_that_others_may_still_write) {
  for (const bool all_finish : {false, true}) {
    SharingMembers members(2);
    constexpr size_t kBytes = 40'000;
    char* tensors[2] = {members.Allocate(0, kBytes), members.Allocate(1, kBytes)};
    FastInPlace other(&members.exchange(1), members.shared(1), kBytes);
    {
      FastInPlace place(&members.exchange(0), members.shared(0), kBytes);
      for (int m : {0, 1}) {
        FastInPlace& its = m == 0 ? place : other;
        ASSERT_TRUE(its.Lend(tensors[m]));
        its.Offer();
        members.exchange(m).Arrive({3, 4});
      }
      ASSERT_TRUE(place.Accept().ok() && other.Accept().ok());
      place.Reduce({});
      if (all_finish) other.Reduce({});
    }
    EXPECT_EQ(members.segment(0).retired(), !all_finish);
    if (!all_finish) {
      tensors[0][0] = 77;  // private now
      other.Reduce({});
      EXPECT_EQ(tensors[0][0], 77);
    }
  }
}

TEST(FastInPlace, refuses_a_place_outside_the_memory_of_its_member) {
  SharingMembers members(2);
  constexpr size_t kBytes = 40'000;
  FastInPlace place(&members.exchange(0), members.shared(0), kBytes);
  ASSERT_TRUE(place.Lend(members.Allocate(0, kBytes)));
  place.Offer();
  members.exchange(0).Arrive({3, 4});
  const int64_t outside = kRoom - kBytes + 1;
  memcpy(members.exchange(1).Tensor(1, sizeof(outside)), &outside, sizeof(outside));
  members.exchange(1).Arrive({3, 4});
  EXPECT_TRUE(Says(place.Accept(), "local rank 1 named a tensor outside its shared memory"));
}

}  // namespace
}  // namespace hvdlite::comm::shm
