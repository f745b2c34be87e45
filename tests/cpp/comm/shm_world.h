// ShmWorld: the members of one shm::Region as threads, without an engine. All of them use one
// mapping of the memory, so that ThreadSanitizer sees every access to it.
//
// A member that sleeps for kPatience although its work could have moved ends the test: a lost
// wake-up.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "comm/net_case.h"
#include "comm/shm/communicator.h"
#include "testing/in_threads.h"
#include "testing/watchdog.h"

namespace hvdlite::comm::shm_testing {

const auto kPatience = static_cast<Nanos>(20 * testing::Patience() * static_cast<double>(kSecond));

class ShmWorld {
 public:
  ShmWorld(int members, size_t chunk_bytes, size_t small_bytes = 0) {
    EXPECT_TRUE(transport::shm::HostSegment::Create(members, &segment_).ok());
    void* memory = nullptr;
    EXPECT_TRUE(
        segment_
            ->Map(segment_->regions_begin(), shm::Region::Footprint(members, chunk_bytes), &memory)
            .ok());
    std::vector<int> local_ranks;
    for (int m = 0; m < members; ++m) local_ranks.push_back(m);
    for (int m = 0; m < members; ++m) {
      bells_.push_back(
          std::make_unique<transport::shm::Doorbells>(segment_.get(), m, std::vector<int>()));
      regions_.push_back(
          std::make_unique<shm::Region>(memory, m, local_ranks, chunk_bytes, bells_.back().get()));
      communicators_.push_back(
          std::make_unique<shm::Communicator>(regions_.back().get(), small_bytes));
    }
  }

  int size() const { return static_cast<int>(regions_.size()); }
  shm::Region& region(int m) { return *regions_[static_cast<size_t>(m)]; }
  transport::shm::Doorbells& bells(int m) { return *bells_[static_cast<size_t>(m)]; }
  shm::Communicator& communicator(int m) { return *communicators_[static_cast<size_t>(m)]; }

  void Run(const std::function<void(int)>& play) { InThreads(size(), play); }

  // Turns the work as the engine does. `yields`: how long to look busy before sleeping.
  void Drive(int m, Work* work, int yields) {
    for (int idle = 0;;) {
      Progress progress = work->Advance();
      if (progress == Progress::kNone && ++idle > yields) {
        const uint32_t ticket = bells(m).BeginSleep();
        progress = work->Advance();
        if (progress == Progress::kNone) {
          std::vector<pollfd> fds;
          EXPECT_NE(bells(m).Sleep(ticket, &fds, kPatience), FutexResult::kTimeout)
              << "nobody woke member " << m;
        }
        bells(m).EndSleep();
        idle = 0;
      } else if (progress == Progress::kNone) {
        sched_yield();
      }
      if (progress == Progress::kDone) return;
      ASSERT_NE(progress, Progress::kFailed) << work->status().ToString();
    }
  }

  // One case after another, without a barrier; members differ in patience and now and then fall
  // asleep.
  void RunCases(const std::vector<net_testing::Case>& cases) {
    const testing::Watchdog watchdog(300);
    std::vector<std::unique_ptr<net_testing::Trial>> trials;
    for (const auto& c : cases) trials.push_back(std::make_unique<net_testing::Trial>(c));
    Run([&](int m) {
      std::mt19937 random(static_cast<uint32_t>(m));
      for (const auto& trial : trials) {
        if (random() % 64 == 0) usleep(random() % 200);
        const auto work = communicator(m).Start(trial->batch(m));
        Drive(m, work.get(), static_cast<int>(random() % 3) * 20);
      }
    });
    for (const auto& trial : trials) {
      for (int m = 0; m < size(); ++m) ASSERT_EQ(trial->Check(m), "");
    }
  }

 private:
  std::unique_ptr<transport::shm::HostSegment> segment_;
  std::vector<std::unique_ptr<transport::shm::Doorbells>> bells_;
  std::vector<std::unique_ptr<shm::Region>> regions_;
  std::vector<std::unique_ptr<shm::Communicator>> communicators_;
};

}  // namespace hvdlite::comm::shm_testing
