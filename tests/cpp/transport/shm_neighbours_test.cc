#include "transport/shm/neighbours.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "base/sha256.h"
#include "testing/in_threads.h"
#include "testing/says.h"
#include "testing/watchdog.h"

namespace hvdlite::transport::shm {
namespace {

const char* const kSecret = "the job's secret";

// For what does happen.
Deadline InTime() {
  return Deadline::AfterSeconds(20 * testing::Patience());
}

// A host of `size` ranks (global ranks 10, 11, ...), all but the hub played by threads.
struct Host {
  explicit Host(int size) : all(static_cast<size_t>(size)), status(static_cast<size_t>(size)) {
    for (int r = 0; r < size; ++r) ranks.push_back(10 + r);
    EXPECT_TRUE(Neighbours::Open(&listener, &name).ok());
  }
  // One rank comes.
  void Come(int r, const Until& until = InTime(), bool eventfds = false) {
    const size_t i = static_cast<size_t>(r);
    status[i] = r == 0 ? Neighbours::Host(listener, kSecret, ranks, eventfds, until, &all[i])
                       : Neighbours::Join(name, kSecret, r, ranks, eventfds, until, &all[i]);
  }
  void Meet(bool eventfds = false, const std::vector<int>& missing = {}) {
    InThreads(static_cast<int>(ranks.size()), [&](int r) {
      if (std::count(missing.begin(), missing.end(), r) == 0) Come(r, InTime(), eventfds);
    });
  }
  int listener = -1;
  std::string name;
  std::vector<int> ranks;
  std::vector<std::unique_ptr<Neighbours>> all;
  std::vector<Status> status;
};

int Connect(const std::string& name) {
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path + 1, name.data(), name.size());
  const socklen_t length =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), length), 0);
  return fd;
}

// What a rank says when it has connected.
std::string Hello(const std::string& name, uint32_t local_rank) {
  const Digest proof = HmacSha256(kSecret, "hvdlite neighbour" + name + std::to_string(local_rank));
  std::string hello(reinterpret_cast<const char*>(&local_rank), sizeof(local_rank));
  return hello.append(reinterpret_cast<const char*>(proof.data()), proof.size());
}

void Send(int fd, const std::string& message) {
  EXPECT_EQ(send(fd, message.data(), message.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(message.size()));
}

TEST(Neighbours, all_get_the_same_segment_and_everyones_eventfd) {
  const testing::Watchdog watchdog(60);
  rlimit before{}, raised{};
  getrlimit(RLIMIT_NOFILE, &before);
  raised = {before.rlim_max, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &raised);
  // 260: more descriptors than one message carries. Here all ranks are in one process, so it needs
  // many.
  for (const int size : {1, 2, 7, 260}) {
    if (static_cast<rlim_t>(size) * static_cast<rlim_t>(size + 4) > raised.rlim_cur) continue;
    Host host(size);
    host.Meet(/*eventfds=*/true);
    for (int r = 0; r < size; ++r) {
      const size_t i = static_cast<size_t>(r);
      ASSERT_TRUE(host.status[i].ok()) << host.status[i].ToString();
      ASSERT_EQ(host.all[i]->eventfds().size(), static_cast<size_t>(size));
      host.all[i]->segment()->line(r).heartbeat = static_cast<uint64_t>(r + 1);
    }
    for (int r = 0; r < size; ++r)
      ASSERT_EQ(host.all[0]->segment()->line(r).heartbeat, static_cast<uint64_t>(r + 1));
    for (auto& each : host.all) ASSERT_TRUE(each->Check(MonotonicNow()).ok());
  }
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST(Neighbours, what_ranks_share_reaches_all_others) {
  const testing::Watchdog watchdog(60);
  for (const int size : {1, 2, 5}) {
    Host host(size);
    host.Meet();
    std::vector<std::vector<Fd>> got(static_cast<size_t>(size));
    std::vector<int> given;
    for (int r = 0; r < size; ++r)  // rank 2 has none
      given.push_back(r == 2 ? -1 : memfd_create(std::to_string(r).c_str(), MFD_CLOEXEC));
    InThreads(given.size(), [&](size_t r) {
      const Status shared = host.all[r]->Share(given[r], InTime(), &got[r]);
      EXPECT_TRUE(shared.ok()) << shared.ToString();
    });
    for (size_t r = 0; r < given.size(); ++r) {
      ASSERT_EQ(got[r].size(), given.size());
      for (size_t other = 0; other < given.size(); ++other) {
        if (other == r) continue;
        ASSERT_EQ(got[r][other].valid(), given[other] >= 0);
        if (given[other] < 0) continue;
        struct stat sent{}, received{};
        fstat(given[other], &sent);
        fstat(got[r][other].get(), &received);
        EXPECT_EQ(sent.st_ino, received.st_ino);
      }
    }
    for (int fd : given) {
      if (fd >= 0) close(fd);
    }
    for (auto& each : host.all)
      ASSERT_TRUE(each->Check(MonotonicNow()).ok()) << "nothing is left over";
  }
}

TEST(Neighbours, a_rank_that_dies_instead_of_sharing_is_named) {
  const testing::Watchdog watchdog(60);
  Host host(3);
  host.Meet();
  std::vector<Fd> got;
  host.all[2].reset();
  std::vector<Fd> of_spoke;
  std::thread spoke([&] { (void)host.all[1]->Share(-1, InTime(), &of_spoke); });
  const Status shared = host.all[0]->Share(-1, InTime(), &got);
  host.all[0].reset();
  spoke.join();
  EXPECT_TRUE(IsLossOf(12, shared));
}

TEST(Neighbours, a_death_is_told_from_a_departure) {
  Host host(4);
  host.Meet();
  host.all[2]->segment()->line(2).left = 1;
  host.all[2].reset();
  EXPECT_TRUE(host.all[0]->Check(MonotonicNow()).ok());
  host.all[1].reset();
  const Status dead = host.all[0]->Check(MonotonicNow());
  EXPECT_TRUE(IsLossOf(11, dead));
  EXPECT_TRUE(IsLossBy(Cause::kDied, {11}, dead));
  EXPECT_TRUE(host.all[0]->Check(MonotonicNow()).ok()) << "said once";
  EXPECT_TRUE(host.all[3]->Check(MonotonicNow()).ok()) << "spokes hear only of the hub";
  host.all[0].reset();
  EXPECT_EQ(host.all[3]->Check(MonotonicNow()).peer(), 10);
}

TEST(Neighbours, strangers_are_sent_away_and_do_no_harm) {
  const testing::Watchdog watchdog(60);
  Host host(3);
  std::vector<int> strangers;
  for (int i = 0; i < 3; ++i) strangers.push_back(Connect(host.name));
  send(strangers[0], "garbage", 7, MSG_NOSIGNAL);
  std::string hello(36, '\1');  // the right length, a rank that exists, a wrong proof
  hello[0] = 1;
  hello[1] = hello[2] = hello[3] = 0;
  send(strangers[1], hello.data(), hello.size(), MSG_NOSIGNAL);
  // The third says nothing at all.
  std::thread wrong([&] {
    std::unique_ptr<Neighbours> out;
    const Status status =
        Neighbours::Join(host.name, "another secret", 1, host.ranks, false, InTime(), &out);
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(out, nullptr);
  });
  host.Meet();
  wrong.join();
  for (int r = 0; r < 3; ++r)
    EXPECT_TRUE(host.status[static_cast<size_t>(r)].ok())
        << host.status[static_cast<size_t>(r)].ToString();
  for (int fd : strangers) close(fd);
}

TEST(Neighbours, a_rank_that_is_held_before_it_says_who_it_is_is_waited_for) {
  const testing::Watchdog watchdog(60);
  Host host(3);
  const int slow = Connect(host.name);
  std::thread late([&] {
    usleep(1500000);
    Send(slow, Hello(host.name, 1));
  });
  host.Meet(/*eventfds=*/false, /*missing=*/{1});
  late.join();
  for (const size_t i : {0, 2}) EXPECT_TRUE(host.status[i].ok()) << host.status[i].ToString();
  close(slow);
}

TEST(Neighbours, those_that_do_not_come_are_named) {
  Host host(4);
  const int there = Connect(host.name);
  Send(there, Hello(host.name, 2));
  host.Come(0, Deadline::After(300 * kMillisecond));
  EXPECT_TRUE(FailsWith(host.status[0], StatusCode::kTimeout, "11, 13"));
  char byte;
  EXPECT_EQ(recv(there, &byte, 1, 0), 0) << "the others do not wait for ever either";
  close(there);
}

TEST(Neighbours, a_hub_that_dies_before_the_rendezvous_is_named) {
  Host host(2);
  close(host.listener);
  host.Come(1);
  EXPECT_TRUE(IsLossOf(10, host.status[1]));
}

TEST(Neighbours, a_hub_that_dies_during_the_rendezvous_ends_it) {
  const testing::Watchdog watchdog(30);
  Host host(3);
  std::thread spoke([&] { host.Come(1, Deadline::Never()); });
  usleep(50000);
  close(host.listener);
  spoke.join();
  EXPECT_FALSE(host.status[1].ok());
  EXPECT_TRUE(IsLossOf(10, host.status[1]));
}

TEST(Neighbours, a_spoke_that_dies_during_the_rendezvous_is_named) {
  const testing::Watchdog watchdog(30);
  Host host(3);
  // Rank 11 proves itself, and is gone before rank 12 has come.
  std::thread brief([&] {
    // Its deadline passes while it waits for the hub, and its socket closes.
    host.Come(1, Deadline::After(50 * kMillisecond));
    EXPECT_FALSE(host.status[1].ok());
  });
  std::thread late([&] {
    brief.join();
    usleep(50000);
    host.Come(2);
  });
  host.Come(0);
  late.join();
  EXPECT_TRUE(IsLossOf(11, host.status[0]));
}

TEST(Neighbours, news_ends_the_wait_of_the_hub_and_of_a_spoke) {
  const testing::Watchdog watchdog(30);
  const Status news = Status::PeerLost(12, "rank 12 died somewhere");
  std::atomic<bool> known{false};
  const Until until(Deadline::Never(), [&] { return known ? news : Status::Ok(); });
  // The hub waits for rank 12, rank 11 for the hub.
  Host host(3);
  std::thread spoke([&] { host.Come(1, until); });
  std::thread hub([&] { host.Come(0, until); });
  usleep(100000);
  known = true;
  spoke.join();
  hub.join();
  for (const size_t i : {0, 1}) {
    EXPECT_EQ(host.status[i].peer(), 12) << host.status[i].ToString();
    EXPECT_EQ(host.status[i].message(), news.message()) << "not: the hub is gone";
  }
}

TEST(Neighbours, disagreement_about_how_to_wake_is_an_error) {
  Host host(2);
  std::thread spoke([&] { host.Come(1, InTime(), /*eventfds=*/true); });
  host.Come(0);
  spoke.join();
  EXPECT_EQ(host.status[1].code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace hvdlite::transport::shm
