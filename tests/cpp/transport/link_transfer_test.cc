// One Link: bytes in order, nothing ever blocks, and an end that names the peer.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "testing/says.h"
#include "transport/tcp/link.h"

namespace hvdlite::transport::tcp {
namespace {

struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    left = std::make_unique<Link>(Fd(fds[0]), 1);
    right = std::make_unique<Link>(Fd(fds[1]), 0);
  }
  std::unique_ptr<Link> left;
  std::unique_ptr<Link> right;
};

TEST(LinkTransfer, MovesWhatFitsAndKeepsTheOrder) {
  Pair pair;
  std::vector<uint32_t> sent(1 << 20);
  std::iota(sent.begin(), sent.end(), 0u);
  std::vector<uint32_t> got(sent.size());
  const size_t bytes = sent.size() * sizeof(uint32_t);
  size_t out = 0, in = 0, stalls = 0;
  while (in < bytes) {
    size_t moved = 99;
    ASSERT_TRUE(
        pair.left->TrySend(reinterpret_cast<char*>(sent.data()) + out, bytes - out, &moved).ok());
    stalls += out < bytes && moved == 0;
    out += moved;
    ASSERT_TRUE(
        pair.right->TryReceive(reinterpret_cast<char*>(got.data()) + in, 7777, &moved).ok());
    in += moved;
  }
  EXPECT_GT(stalls, 0u);  // the test would prove little otherwise
  EXPECT_EQ(got, sent);
}

// Both ends of a TCP connection.
Pair OverTcp() {
  const Deadline deadline = Deadline::After(30 * kSecond);
  Fd door, near, far;
  Endpoint bound, from;
  EXPECT_TRUE(Listen({"127.0.0.1", 0}, 1, &door, &bound).ok());
  EXPECT_TRUE(Connect(bound, deadline, &near).ok());
  EXPECT_TRUE(WaitAccept(door.get(), deadline, &far, &from).ok());
  Pair pair;
  pair.left = std::make_unique<Link>(std::move(near), 1);
  pair.right = std::make_unique<Link>(std::move(far), 0);
  return pair;
}

bool Readable(const Link& link) {
  pollfd fd{link.fd(), POLLIN, 0};
  return poll(&fd, 1, 0) == 1;
}

void AwaitArrival(const Link& link, int bytes) {
  const Deadline deadline = Deadline::After(30 * kSecond);
  int come = 0;
  while (come < bytes && !deadline.Passed()) ASSERT_EQ(ioctl(link.fd(), FIONREAD, &come), 0);
  ASSERT_EQ(come, bytes);
}

TEST(LinkTransfer, WakesAtTheBytesAskedForAndAtTheEndOfTheConnection) {
  Pair pair = OverTcp();
  const std::vector<char> data(100);
  size_t moved = 0;
  pair.right->WakeAt(100);
  ASSERT_TRUE(pair.left->TrySend(data.data(), 99, &moved).ok());
  AwaitArrival(*pair.right, 99);
  EXPECT_FALSE(Readable(*pair.right));
  pair.right->WakeAt(1);
  EXPECT_TRUE(Readable(*pair.right));
  pair.right->WakeAt(100);
  EXPECT_FALSE(Readable(*pair.right));
  ASSERT_TRUE(pair.left->TrySend(data.data(), 1, &moved).ok());
  AwaitArrival(*pair.right, 100);
  EXPECT_TRUE(Readable(*pair.right));
  pair.right->WakeAt(1000);
  pair.left.reset();
  pollfd end{pair.right->fd(), POLLIN, 0};
  EXPECT_EQ(poll(&end, 1, 30000), 1);
}

TEST(LinkTransfer, AnEmptyPipeGivesNothingAndIsNoError) {
  Pair pair;
  char byte = 0;
  size_t moved = 99;
  EXPECT_TRUE(pair.left->TryReceive(&byte, 1, &moved).ok());
  EXPECT_EQ(moved, 0u);
  EXPECT_TRUE(pair.left->TryReceive(&byte, 0, &moved).ok());
  EXPECT_TRUE(pair.left->TrySend(&byte, 0, &moved).ok());
  EXPECT_EQ(moved, 0u);
}

TEST(LinkTransfer, APeerThatLeavesIsNamedAfterItsLastByteAndForEver) {
  Pair pair;
  size_t moved = 0;
  ASSERT_TRUE(pair.right->TrySend("bye", 3, &moved).ok());
  pair.right.reset();
  char text[8];
  ASSERT_TRUE(pair.left->TryReceive(text, sizeof(text), &moved).ok());
  EXPECT_EQ(moved, 3u);
  for (int i = 0; i < 2; ++i) {
    const Status status = pair.left->TryReceive(text, sizeof(text), &moved);
    EXPECT_TRUE(IsLossOf(1, status, "rank 1 closed the connection"));
    EXPECT_TRUE(IsLossBy(Cause::kClosed, {1}, status));
    EXPECT_EQ(moved, 0u);
  }
  EXPECT_EQ(pair.left->TrySend(text, 1, &moved).code(), StatusCode::kPeerLost);
}

TEST(LinkTransfer, SendingToAPeerThatLeftIsAnErrorAndNoSignal) {
  Pair pair;
  pair.right.reset();
  size_t moved = 0;
  const Status status = pair.left->TrySend("x", 1, &moved);
  EXPECT_TRUE(IsLossOf(1, status));
}

TEST(LinkTransfer, ASendThatFailsLeavesTheLastWordsReadable) {
  Pair pair;
  size_t moved = 0;
  ASSERT_TRUE(pair.left->TrySend("unread", 6, &moved).ok());
  ASSERT_TRUE(pair.right->TrySend("bye", 3, &moved).ok());
  pair.right.reset();
  ASSERT_EQ(pair.left->TrySend("x", 1, &moved).code(), StatusCode::kPeerLost);
  char text[8];
  ASSERT_TRUE(pair.left->TryReceive(text, sizeof(text), &moved).ok());
  EXPECT_EQ(std::string(text, moved), "bye");
  EXPECT_EQ(pair.left->TryReceive(text, sizeof(text), &moved).code(), StatusCode::kPeerLost);
}

TEST(LinkTransfer, WhoEndsSendingStillReceives) {
  Pair pair;
  size_t moved = 0;
  ASSERT_TRUE(pair.right->TrySend("bye", 3, &moved).ok());
  pair.right->EndSending();
  char text[8];
  ASSERT_TRUE(pair.left->TrySend("late", 4, &moved).ok());
  ASSERT_TRUE(pair.left->TryReceive(text, sizeof(text), &moved).ok());
  EXPECT_EQ(std::string(text, moved), "bye");
  EXPECT_EQ(pair.left->TryReceive(text, sizeof(text), &moved).code(), StatusCode::kPeerLost);
  ASSERT_TRUE(pair.right->TryReceive(text, sizeof(text), &moved).ok());
  EXPECT_EQ(std::string(text, moved), "late");
}

}  // namespace
}  // namespace hvdlite::transport::tcp
