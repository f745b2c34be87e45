// MpiWorld: the members of an mpi::Communicator as threads of one process, over a FakeMpi.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "comm/mpi/communicator.h"
#include "comm/mpi/pipe.h"
#include "comm/net_over_pipes.h"
#include "testing/fake_mpi.h"
#include "testing/in_threads.h"
#include "testing/watchdog.h"

namespace hvdlite::comm::net_testing {

class MpiWorld {
 public:
  MpiWorld(int size, mpi::Options options, testing::FakeMpiOptions fake = {}) : mpi_(size, fake) {
    std::vector<int> ranks(static_cast<size_t>(size));
    for (int r = 0; r < size; ++r) ranks[static_cast<size_t>(r)] = r;
    members_.resize(static_cast<size_t>(size));
    InThreads(size, [&](int r) {
      std::unique_ptr<mpi::Channel> channel;
      const Status opened =
          mpi::Channel::Open(mpi_.library(), mpi_.world(r), ranks, /*tag=*/0,
                             Deadline::AfterSeconds(30 * testing::Patience()), &channel);
      ASSERT_TRUE(opened.ok()) << opened.ToString();
      members_[static_cast<size_t>(r)] = std::make_unique<mpi::Communicator>(
          std::move(channel), OverPipes(channel.get(), r), options);
    });
  }

  int size() const { return static_cast<int>(members_.size()); }
  mpi::Communicator* member(int i) { return members_[static_cast<size_t>(i)].get(); }
  testing::FakeMpi& fake() { return mpi_; }
  void Destroy() { members_.clear(); }

  std::vector<Status> Run(const std::function<Status(int, Communicator*)>& body) {
    std::vector<Status> statuses(members_.size());
    InThreads(members_.size(),
              [&](size_t i) { statuses[i] = body(static_cast<int>(i), members_[i].get()); });
    return statuses;
  }

 private:
  static std::unique_ptr<Communicator> OverPipes(mpi::Channel* channel, int me) {
    NetOverPipes::Pipes pipes(static_cast<size_t>(channel->size()));
    for (int r = 0; r < channel->size(); ++r) {
      if (r != me) pipes[static_cast<size_t>(r)] = std::make_unique<mpi::Pipe>(channel, r, r);
    }
    return std::make_unique<NetOverPipes>(me, std::move(pipes));
  }

  testing::FakeMpi mpi_;
  std::vector<std::unique_ptr<mpi::Communicator>> members_;
};

}  // namespace hvdlite::comm::net_testing
