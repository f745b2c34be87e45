#include "testing/says.h"
#include "transport/shm/host_segment.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <thread>

namespace hvdlite::transport::shm {
namespace {

TEST(HostSegment, two_mappings_are_one_memory) {
  std::unique_ptr<HostSegment> a, b;
  ASSERT_TRUE(HostSegment::Create(3, &a).ok());
  ASSERT_TRUE(HostSegment::Attach(dup(a->fd()), 3, &b).ok());
  a->line(2).heartbeat = 7;
  EXPECT_EQ(b->line(2).heartbeat, 7u);
  void *x = nullptr, *y = nullptr, *z = nullptr;
  ASSERT_TRUE(a->Map(a->regions_begin(), 8192, &x).ok());
  ASSERT_TRUE(b->Map(b->regions_begin(), 8192, &y).ok());
  ASSERT_TRUE(b->Map(b->regions_begin() + 8192, 4096, &z).ok());
  for (int i = 0; i < 8192; ++i) ASSERT_EQ(static_cast<char*>(x)[i], 0) << "new memory is zero";
  memset(x, 1, 8192);
  EXPECT_EQ(static_cast<char*>(y)[8191], 1);
  EXPECT_EQ(static_cast<char*>(z)[0], 0);
}

TEST(HostSegment, a_segment_of_another_kind_is_refused) {
  std::unique_ptr<HostSegment> a, b;
  ASSERT_TRUE(HostSegment::Create(3, &a).ok());
  EXPECT_EQ(HostSegment::Attach(dup(a->fd()), 4, &b).code(), StatusCode::kInternal)
      << "another number of ranks";
  a->header().magic = 1;
  EXPECT_EQ(HostSegment::Attach(dup(a->fd()), 3, &b).code(), StatusCode::kInternal)
      << "another version";
}

TEST(HostSegment, more_memory_than_there_is_is_an_error_that_says_what_to_do) {
  std::unique_ptr<HostSegment> a;
  ASSERT_TRUE(HostSegment::Create(1, &a).ok());
  void* x = nullptr;
  // More than any file may have. (Less than that, but more than the machine has, would end in the
  // out-of-memory killer of a container before it ended in an error.)
  const Status status = a->Map(a->regions_begin(), static_cast<size_t>(INT64_MAX), &x);
  EXPECT_TRUE(FailsWith(status, StatusCode::kIo, "HVDLITE_SHM_CHUNK_BYTES"));
}

TEST(HostSegment, the_first_failure_stays) {
  std::unique_ptr<HostSegment> a, b;
  ASSERT_TRUE(HostSegment::Create(2, &a).ok());
  ASSERT_TRUE(HostSegment::Attach(dup(a->fd()), 2, &b).ok());
  EXPECT_FALSE(a->aborted());
  a->SetAbort(Status::PeerLost(Cause::kNetwork, {5, 7, 9}, "first"));
  b->SetAbort(Status::Internal("second"));
  ASSERT_TRUE(b->aborted());
  EXPECT_TRUE(IsLossOf(5, b->abort_status()));
  EXPECT_TRUE(IsLossBy(Cause::kNetwork, {5, 7, 9}, b->abort_status()));
  EXPECT_EQ(b->abort_status().message(), "first");
}

TEST(HostSegment, a_long_reason_is_cut_and_many_writers_leave_one_whole_reason) {
  for (int round = 0; round < 200; ++round) {
    std::unique_ptr<HostSegment> a;
    ASSERT_TRUE(HostSegment::Create(4, &a).ok());
    std::vector<std::thread> writers;
    for (int w = 0; w < 4; ++w) {
      writers.emplace_back([&, w] {
        a->SetAbort(Status::PeerLost(w, std::string(5000, static_cast<char>('a' + w))));
      });
    }
    while (!a->aborted()) sched_yield();
    const Status status = a->abort_status();  // readable at once
    for (std::thread& writer : writers) writer.join();
    EXPECT_EQ(status.message(), std::string(SegmentHeader::kAbortTextBytes - 1,
                                            static_cast<char>('a' + status.peer())));
  }
}

TEST(HostSegment, the_last_to_unmap_a_region_gives_its_memory_back) {
  std::unique_ptr<HostSegment> a, b;
  ASSERT_TRUE(HostSegment::Create(2, &a).ok());
  ASSERT_TRUE(HostSegment::Attach(dup(a->fd()), 2, &b).ok());
  const auto blocks = [&] {
    struct stat s{};
    fstat(a->fd(), &s);
    return s.st_blocks;
  };
  const auto before = blocks();
  size_t at = a->regions_begin();
  for (int round = 0; round < 3; ++round, at += 1 << 20) {
    void *x = nullptr, *y = nullptr;
    ASSERT_TRUE(a->Map(at, 1 << 20, &x).ok());
    ASSERT_TRUE(b->Map(at, 1 << 20, &y).ok());
    EXPECT_EQ(blocks(), before + (1 << 20) / 512);
    a->Unmap(x, /*last=*/false);
    static_cast<char*>(y)[0] = 1;  // still there for the other
    b->Unmap(y, /*last=*/true);
    EXPECT_EQ(blocks(), before);
  }
}

}  // namespace
}  // namespace hvdlite::transport::shm
