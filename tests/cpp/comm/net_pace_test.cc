// Links that deliver slowly: the results are the same, and no member sleeps for bytes that never
// come.
#include "comm/net/pace.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "comm/net/wire.h"
#include "net_case.h"
#include "testing/loopback.h"
#include "transport/checked.h"
#include "transport/tcp/socket.h"

namespace hvdlite::comm::net_testing {
namespace {

using net::Pace;

// Receives `bytes` in packets of 1500 at this rate.
void Receive(Pace* pace, size_t bytes, double bits_per_second, Nanos* now) {
  for (size_t come = 0; come < bytes; come += 1500) {
    *now += static_cast<Nanos>(1500 * 8 / bits_per_second * 1e9);
    pace->Received(1500, *now);
  }
}

TEST(NetPace, A_link_is_slow_from_10_Mbit_to_5_Gbit_per_second) {
  const std::vector<std::pair<double, bool>> rates = {{1e6, false},  {50e6, true},  {1e9, true},
                                                      {2.5e9, true}, {4e9, true},   {10e9, false},
                                                      {25e9, false}, {100e9, false}};
  for (const auto& [rate, slow] : rates) {
    Pace pace;
    Nanos now = kSecond;
    Receive(&pace, 1 << 20, rate, &now);
    EXPECT_EQ(pace.slow(), slow) << rate;
  }
}

TEST(NetPace, A_peer_that_begins_late_makes_no_link_slow) {
  Pace pace;
  Nanos now = kSecond;
  for (int work = 0; work < 3; ++work) {
    now += kSecond;
    pace.Restart();
    Receive(&pace, 1 << 20, 25e9, &now);
    EXPECT_FALSE(pace.slow());
  }
}

TEST(NetPace,
     A_fast_link_wakes_at_its_first_byte_and_a_slow_one_never_waits_for_more_than_is_wanted) {
  Pace pace;
  EXPECT_EQ(pace.WakeAt(128 << 10), 1u);
  EXPECT_FALSE(pace.Trickles(1, 128 << 10));
  Nanos now = kSecond;
  Receive(&pace, 1 << 20, 1e9, &now);
  EXPECT_EQ(pace.WakeAt(128 << 10), size_t{64 << 10});
  EXPECT_EQ(pace.WakeAt(20 << 10), size_t{16 << 10});
  for (const size_t wanted : {1, 100, 16384}) EXPECT_EQ(pace.WakeAt(wanted), wanted);
  EXPECT_TRUE(pace.Trickles(1500, 128 << 10));
  EXPECT_FALSE(pace.Trickles(1500, 1500));  // the last bytes
  EXPECT_FALSE(pace.Trickles(64 << 10, 128 << 10));
}

// TCP connections that the kernel paces at this rate.
Links PacedLinks(int size, uint64_t bytes_per_second) {
  Links links(static_cast<size_t>(size));
  for (auto& row : links) row.resize(static_cast<size_t>(size));
  const Deadline deadline = Deadline::After(MemberPatience());
  Fd door;
  transport::tcp::Endpoint bound, from;
  EXPECT_TRUE(transport::tcp::Listen({"127.0.0.1", 0}, size, &door, &bound).ok());
  for (size_t i = 0; i < links.size(); ++i) {
    for (size_t j = i + 1; j < links.size(); ++j) {
      Fd fds[2];
      EXPECT_TRUE(transport::tcp::Connect(bound, deadline, &fds[0]).ok());
      EXPECT_TRUE(transport::tcp::WaitAccept(door.get(), deadline, &fds[1], &from).ok());
      for (const Fd& fd : fds) {
        EXPECT_EQ(setsockopt(fd.get(), SOL_SOCKET, SO_MAX_PACING_RATE, &bytes_per_second,
                             sizeof(bytes_per_second)),
                  0);
      }
      links[i][j] = std::make_unique<transport::tcp::Link>(std::move(fds[0]), static_cast<int>(j));
      links[j][i] = std::make_unique<transport::tcp::Link>(std::move(fds[1]), static_cast<int>(i));
    }
  }
  return links;
}

TEST(NetPace, Every_collective_over_links_of_500_Mbit_matches_the_reference) {
  for (const int members : {2, 3, 4}) {
    for (const bool checked : {false, true}) {
      NetWorld net(PacedLinks(members, 60'000'000), {}, {}, checked);
      std::vector<Case> cases;
      for (const OpKind kind : {OpKind::kAllreduce, OpKind::kAllgather, OpKind::kBroadcast,
                                OpKind::kAlltoall, OpKind::kReducescatter, OpKind::kAllreduce}) {
        Case one;
        one.kind = kind;
        one.members = members;
        one.sizes = {100, 300'000, 7};
        one.root = members - 1;
        one.in_place = kind == OpKind::kAllreduce;
        cases.push_back(one);
      }
      RunCases(&net, cases);
    }
  }
}

// Two frames arrive together, the first is handed out, and the link has read both.
TEST(NetPace, A_member_does_not_sleep_while_its_link_holds_bytes) {
  auto [a, b] = testing::Loopback::Pair(0, 1);
  transport::Checked sender(std::move(a)), receiver(std::move(b));
  net::Wire wire(1, 2, {&receiver, nullptr}, 128 << 10, 0);
  std::vector<char> memory(64 << 10);
  const auto send = [&sender, &memory](size_t bytes) {
    size_t moved = 0;
    ASSERT_TRUE(sender.TrySend(memory.data(), bytes, &moved).ok());
    ASSERT_EQ(moved, bytes);
  };
  size_t moved = 0;
  wire.BeginWork();
  for (int i = 0; i < 6; ++i) {  // a slow link
    send(memory.size());
    usleep(1000);
    ASSERT_TRUE(wire.ReceiveInto(0, memory.data(), memory.size(), &moved).ok());
  }
  send(500);
  send(500);
  for (const bool holds : {true, false}) {
    wire.BeginTurn();
    ASSERT_TRUE(wire.ReceiveInto(0, memory.data(), memory.size(), &moved).ok());
    EXPECT_EQ(moved, 500u);
    EXPECT_EQ(receiver.holds_bytes(), holds);
    if (holds) {
      EXPECT_EQ(wire.spent(), 500u);
    }
  }
}

}  // namespace
}  // namespace hvdlite::comm::net_testing
