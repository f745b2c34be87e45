// NetWorld: the members of a net::Communicator as threads of one process, joined by socket pairs
// with faults.
//
// The watchdog: a member that makes no progress for MemberPatience() ends the test with a Status
// that says so, and a member that slept in poll(2) although it could have moved is a bug of
// AddPollFds and ends it as well.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "comm/net/communicator.h"
#include "testing/fault_transport.h"
#include "testing/in_threads.h"
#include "testing/watchdog.h"
#include "transport/checked.h"
#include "transport/tcp/link.h"

namespace hvdlite::comm::net_testing {

using hvdlite::testing::Faults;
using hvdlite::testing::FaultTransport;

inline Nanos MemberPatience() {
  return static_cast<Nanos>(60 * testing::Patience() * static_cast<double>(kSecond));
}

// links[i][j]: member i's end of the pipe between i and j; null for i == j.
using Links = std::vector<std::vector<std::unique_ptr<transport::Transport>>>;

inline Links SocketPairLinks(int size) {
  Links links(static_cast<size_t>(size));
  for (auto& row : links) row.resize(static_cast<size_t>(size));
  for (int i = 0; i < size; ++i) {
    for (int j = i + 1; j < size; ++j) {
      int fds[2];
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0)
        std::abort();
      links[i][j] = std::make_unique<transport::tcp::Link>(Fd(fds[0]), j);
      links[j][i] = std::make_unique<transport::tcp::Link>(Fd(fds[1]), i);
    }
  }
  return links;
}

inline void AddFaults(Faults faults, Links* links) {
  for (auto& row : *links) {
    for (auto& link : row) {
      if (link == nullptr) continue;
      faults.seed = faults.seed * 1664525 + 1013904223;
      link = std::make_unique<FaultTransport>(std::move(link), faults);
    }
  }
}

// Turns a work until it is done, as the engine does: sleeps on the reported descriptors and on
// nothing else.
inline Status Drive(Communicator* communicator, Work* work) {
  const Deadline deadline = Deadline::After(MemberPatience());
  bool slept_in_vain = false;
  while (true) {
    const Progress progress = work->Advance();
    if (progress == Progress::kDone) return Status::Ok();
    if (progress == Progress::kFailed) return work->status();
    if (progress == Progress::kSome) {
      if (slept_in_vain)
        return Status::Internal("slept although it could move: AddPollFds left something out");
      continue;
    }
    if (deadline.Passed()) return Status::Timeout("watchdog: no progress in time");
    if (communicator->must_be_asked()) {
      std::this_thread::yield();
      continue;
    }
    std::vector<pollfd> fds;
    communicator->AddPollFds(&fds);
    if (fds.empty()) return Status::Internal("waits, but says for nothing");
    slept_in_vain =
        poll(fds.data(), fds.size(), static_cast<int>(10000 * testing::Patience())) == 0;
  }
}

inline void AddChecks(Links* links) {
  for (auto& row : *links) {
    for (auto& link : row) {
      if (link != nullptr) link = std::make_unique<transport::Checked>(std::move(link));
    }
  }
}

class NetWorld {
 public:
  // `checked`: with check words, as between machines.
  explicit NetWorld(int size, net::Options options = {}, Faults faults = {}, bool checked = false)
      : NetWorld(SocketPairLinks(size), options, faults, checked) {}
  NetWorld(Links links, net::Options options, Faults faults, bool checked = false)
      : links_(std::move(links)) {
    AddFaults(faults, &links_);
    if (checked) AddChecks(&links_);
    const int size = static_cast<int>(links_.size());
    for (int i = 0; i < size; ++i) {
      std::vector<transport::Transport*> row;
      for (auto& link : links_[static_cast<size_t>(i)]) row.push_back(link.get());
      members_.push_back(std::make_unique<net::Communicator>(i, size, row, options));
    }
  }

  int size() const { return static_cast<int>(members_.size()); }
  net::Communicator* member(int i) { return members_[static_cast<size_t>(i)].get(); }
  Links& links() { return links_; }

  // Runs `body(member, communicator)` in a thread per member; the statuses it returns.
  std::vector<Status> Run(const std::function<Status(int, Communicator*)>& body) {
    std::vector<Status> statuses(members_.size());
    InThreads(members_.size(),
              [&](size_t i) { statuses[i] = body(static_cast<int>(i), members_[i].get()); });
    return statuses;
  }

 private:
  Links links_;
  std::vector<std::unique_ptr<net::Communicator>> members_;
};

}  // namespace hvdlite::comm::net_testing
