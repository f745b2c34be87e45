// Bytes over several lanes: in order, complete, and with the error of the lane that fails.
#include "transport/striped.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "testing/byte_stream.h"
#include "testing/fault_transport.h"
#include "testing/loopback.h"
#include "testing/says.h"
#include "transport/checked.h"
#include "transport/tcp/link.h"

namespace hvdlite::transport::striped_testing {
namespace {

using testing::ExpectToArrive;
using testing::Faults;
using testing::FaultTransport;
using testing::Letters;
using testing::Loopback;

// One end: the lanes and what goes over them.
class End {
 public:
  explicit End(std::vector<std::unique_ptr<Transport>> lanes)
      : lanes_(std::move(lanes)), traffic_(lanes_.size()), striped_(Borrowed(), Counters()) {}

  Striped* operator->() { return &striped_; }
  Transport& lane(size_t i) { return *lanes_[i]; }
  void Close(size_t i) { lanes_[i].reset(); }
  uint64_t sent(size_t i) const { return traffic_[i].sent; }
  uint64_t received(size_t i) const { return traffic_[i].received; }

 private:
  std::vector<Transport*> Borrowed() const {
    std::vector<Transport*> all;
    for (const auto& lane : lanes_) all.push_back(lane.get());
    return all;
  }
  std::vector<Traffic*> Counters() {
    std::vector<Traffic*> all;
    for (Traffic& one : traffic_) all.push_back(&one);
    return all;
  }

  std::vector<std::unique_ptr<Transport>> lanes_;
  std::vector<Traffic> traffic_;
  Striped striped_;
};

using Lanes = std::vector<std::unique_ptr<Transport>>;

std::pair<Lanes, Lanes> SocketPairs(size_t count) {
  Lanes left, right;
  for (size_t i = 0; i < count; ++i) {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    left.push_back(std::make_unique<tcp::Link>(Fd(fds[0]), 1));
    right.push_back(std::make_unique<tcp::Link>(Fd(fds[1]), 0));
  }
  return {std::move(left), std::move(right)};
}

void Bytes(Transport& transport, const std::string& bytes) {
  size_t moved = 0;
  ASSERT_TRUE(transport.TrySend(bytes.data(), bytes.size(), &moved).ok());
  ASSERT_EQ(moved, bytes.size());
}

std::string Block(uint32_t sequence, const std::string& payload, uint32_t length = 0) {
  if (length == 0) length = static_cast<uint32_t>(payload.size());
  std::string block(8, '\0');
  memcpy(block.data(), &sequence, 4);
  memcpy(block.data() + 4, &length, 4);
  return block + payload;
}

// What can be received now, and the status of the last call.
std::pair<std::string, Status> Received(Transport* transport) {
  std::string all;
  std::vector<char> memory(1 << 20);
  while (true) {
    size_t moved = 0;
    const Status status = transport->TryReceive(memory.data(), memory.size(), &moved);
    all.append(memory.data(), moved);
    if (!status.ok() || moved == 0) return {all, status};
  }
}

TEST(Striped, carries_bytes_in_order_however_they_are_offered_asked_for_and_cut) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const size_t most = seed % 2 == 0 ? 300 : 200000;
    const size_t count = 2 + seed % 3;
    Lanes left, right;
    for (size_t i = 0; i < count; ++i) {
      auto [a, b] = Loopback::Pair(0, 1, 1 + random() % most);
      left.push_back(std::make_unique<FaultTransport>(
          std::move(a),
          Faults{.seed = static_cast<uint32_t>(random()), .stall = 0.2, .most = most}));
      right.push_back(std::make_unique<FaultTransport>(
          std::move(b),
          Faults{.seed = static_cast<uint32_t>(random()), .stall = 0.2, .most = most}));
      if (seed % 4 < 2) {
        left.back() = std::make_unique<Checked>(std::move(left.back()));
        right.back() = std::make_unique<Checked>(std::move(right.back()));
      }
    }
    End sender(std::move(left)), receiver(std::move(right));
    const std::string sent = Letters(1 + random() % (20 * most), seed);
    ASSERT_NO_FATAL_FAILURE(
        ExpectToArrive(sent, most, &random, sender.operator->(), receiver.operator->()));
    uint64_t sum_sent = 0, sum_received = 0;
    for (size_t i = 0; i < count; ++i) {
      sum_sent += sender.sent(i);
      sum_received += receiver.received(i);
      EXPECT_EQ(sender.sent(i), receiver.received(i));
    }
    EXPECT_EQ(sum_sent, sent.size());
    EXPECT_EQ(sum_received, sent.size());
  }
}

TEST(Striped, waits_for_the_lane_of_the_next_block_and_not_for_one_that_is_ahead) {
  auto [left, right] = SocketPairs(2);
  End receiver(std::move(right));
  Bytes(*left[0], Block(1, "second"));
  EXPECT_EQ(Received(receiver.operator->()).first, "");
  std::vector<pollfd> fds;
  receiver->AddPollFds(POLLIN, &fds);
  ASSERT_EQ(fds.size(), 1u);
  EXPECT_EQ(fds[0].fd, receiver.lane(1).fd());
  EXPECT_EQ(poll(fds.data(), 1, 0), 0);
  Bytes(*left[1], Block(0, "first "));
  EXPECT_EQ(poll(fds.data(), 1, 0), 1);
  EXPECT_EQ(Received(receiver.operator->()).first, "first second");
  fds.clear();
  receiver->AddPollFds(POLLIN, &fds);
  EXPECT_EQ(fds.size(), 2u);
}

TEST(Striped, waits_for_a_block_that_is_due_and_whose_head_has_been_read) {
  auto [left, right] = SocketPairs(2);
  End receiver(std::move(right));
  Bytes(*left[0], Block(1, "second"));
  EXPECT_EQ(Received(receiver.operator->()).first, "");
  Bytes(*left[1], Block(0, "first"));
  char memory[100];
  size_t moved = 0;
  ASSERT_TRUE(receiver->TryReceive(memory, sizeof(memory), &moved).ok());
  EXPECT_EQ(moved, 5u);
  std::vector<pollfd> fds;
  receiver->AddPollFds(POLLIN, &fds);
  EXPECT_EQ(fds.size(), 2u);
  EXPECT_EQ(poll(fds.data(), fds.size(), 0), 1);
}

TEST(Striped, waits_to_send_on_the_lane_of_the_block_under_way) {
  auto [left, right] = SocketPairs(2);
  End sender(std::move(left));
  const std::string much(64 << 20, 'x');
  size_t moved = 0;
  ASSERT_TRUE(sender->TrySend(much.data(), much.size(), &moved).ok());
  ASSERT_LT(moved, much.size());
  std::vector<pollfd> fds;
  sender->AddPollFds(POLLOUT, &fds);
  ASSERT_EQ(fds.size(), 1u);
  EXPECT_EQ(fds[0].events, POLLOUT);
  EXPECT_EQ(poll(fds.data(), 1, 0), 0);
}

TEST(Striped, a_lane_that_the_peer_has_closed_does_not_hide_the_last_bytes_of_the_others) {
  auto [left, right] = SocketPairs(3);
  End receiver(std::move(right));
  Bytes(*left[1], Block(0, "first"));
  Bytes(*left[2], Block(2, "third"));
  left[1].reset();
  left[2].reset();
  auto [got, status] = Received(receiver.operator->());
  EXPECT_EQ(got, "first");
  EXPECT_TRUE(status.ok()) << status.ToString();
  std::vector<pollfd> fds;
  receiver->AddPollFds(POLLIN, &fds);
  EXPECT_EQ(fds.size(), 1u);
  Bytes(*left[0], Block(1, "second"));
  EXPECT_EQ(Received(receiver.operator->()).first, "secondthird");
  left[0].reset();
  status = Received(receiver.operator->()).second;
  EXPECT_TRUE(FailsWith(status, StatusCode::kPeerLost, "rank 0 closed the connection"));
}

TEST(Striped, a_lane_that_breaks_ends_all) {
  auto [left, right] = SocketPairs(2);
  right[1] = std::make_unique<FaultTransport>(std::move(right[1]), Faults{.lost_after = 13});
  End receiver(std::move(right));
  Bytes(*left[1], Block(0, "first"));
  const auto [got, status] = Received(receiver.operator->());
  EXPECT_EQ(got, "first");
  EXPECT_TRUE(IsLossOf(0, status));
}

TEST(Striped, a_block_that_cannot_be_is_an_error_and_no_wait) {
  const std::string heads[] = {Block(0, "", 131073), Block(0, "x", 1).replace(4, 4, 4, '\0'),
                               Block(0xffffffff, "x")};
  for (const std::string& head : heads) {
    auto [left, right] = SocketPairs(2);
    End receiver(std::move(right));
    Bytes(*left[1], head);
    const Status status = Received(receiver.operator->()).second;
    EXPECT_TRUE(FailsWith(status, StatusCode::kPeerLost, "changes what it carries"));
    EXPECT_EQ(status.cause(), Cause::kDamaged);
  }
  auto [left, right] = SocketPairs(2);
  End receiver(std::move(right));
  Bytes(*left[0], Block(1, "x"));
  Bytes(*left[1], Block(2, "x"));
  EXPECT_TRUE(Says(Received(receiver.operator->()).second, "block 0 is missing"));
}

}  // namespace
}  // namespace hvdlite::transport::striped_testing
