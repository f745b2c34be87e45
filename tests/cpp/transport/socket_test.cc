#include "transport/tcp/socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "testing/says.h"
#include "testing/soon.h"
#include "testing/watchdog.h"

namespace hvdlite::transport::tcp {
namespace {

struct Connection {
  Fd client;
  Fd server;
};

Connection MakeConnection(const std::string& host = "127.0.0.1") {
  Connection made;
  Fd listener;
  Endpoint bound;
  Endpoint peer;
  EXPECT_TRUE(Listen({host, 0}, 8, &listener, &bound).ok());
  EXPECT_TRUE(Connect(bound, Soon(), &made.client).ok());
  EXPECT_TRUE(WaitAccept(listener.get(), Soon(), &made.server, &peer).ok());
  Endpoint local;
  EXPECT_TRUE(LocalEndpoint(made.client.get(), &local).ok());
  EXPECT_EQ(peer, local);
  return made;
}

bool HasIpv6() {
  Fd listener;
  Endpoint bound;
  return Listen({"::1", 0}, 1, &listener, &bound).ok();
}

TEST(Endpoint, IsWrittenAndReadTheSameWay) {
  for (const char* text :
       {"10.0.0.5:80", "node1:4000", "[::1]:80", "[fe80::1%eth0]:65535", "node-1.cluster:0"}) {
    Endpoint endpoint;
    ASSERT_TRUE(ParseEndpoint(text, &endpoint).ok()) << text;
    EXPECT_EQ(endpoint.ToString(), text);
  }
  Endpoint endpoint;
  ASSERT_TRUE(ParseEndpoint("[::1]:80", &endpoint).ok());
  EXPECT_EQ(endpoint.host, "::1");
  EXPECT_EQ(endpoint.port, 80);
}

TEST(Endpoint, RefusesWhatIsNoAddress) {
  for (const char* text :
       {"", ":", ":80", "host", "host:", "host:65536", "host:-1", "host:8x", "host: 80", "::1:80",
        "[]:80", "[::1]", "[::1:80", "a b:80", "host:99999999999999999999"}) {
    Endpoint endpoint;
    const Status status = ParseEndpoint(text, &endpoint);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(Fd, ClosesWhatItOwnsOnce) {
  int pipes[2];
  ASSERT_EQ(pipe2(pipes, O_CLOEXEC), 0);
  Fd reader(pipes[0]);
  {
    Fd writer(pipes[1]);
    Fd moved(std::move(writer));
    EXPECT_EQ(moved.get(), pipes[1]);
  }
  char byte;
  EXPECT_EQ(read(reader.get(), &byte, 1), 0);  // end of file: the writer is closed
}

TEST(Socket, BytesArriveWholeInBothDirectionsHoweverMany) {
  Connection connection = MakeConnection();
  std::string sent(5 << 20, '\0');
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 31 >> 3);
  std::thread echo([&] {
    std::string got(sent.size(), '\0');
    EXPECT_TRUE(
        ReadFull(connection.server.get(), got.data(), got.size(), Soon(), "the client").ok());
    EXPECT_TRUE(
        WriteFull(connection.server.get(), got.data(), got.size(), Soon(), "the client").ok());
  });
  std::string back(sent.size(), '\0');
  EXPECT_TRUE(
      WriteFull(connection.client.get(), sent.data(), sent.size(), Soon(), "the server").ok());
  EXPECT_TRUE(
      ReadFull(connection.client.get(), back.data(), back.size(), Soon(), "the server").ok());
  echo.join();
  EXPECT_EQ(sent, back);
}

TEST(Socket, SpeaksIpv6) {
  if (!HasIpv6()) GTEST_SKIP() << "this machine has no IPv6";
  Connection connection = MakeConnection("::1");
  Endpoint local;
  ASSERT_TRUE(LocalEndpoint(connection.server.get(), &local).ok());
  EXPECT_EQ(local.host, "::1");
}

TEST(Socket, IsNonBlockingCloseOnExecAndWithoutDelay) {
  Connection connection = MakeConnection();
  for (int fd : {connection.client.get(), connection.server.get()}) {
    EXPECT_NE(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    int on = 0;
    socklen_t length = sizeof(on);
    ASSERT_EQ(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &length), 0);
    EXPECT_NE(on, 0);
  }
}

TEST(Socket, ListensOnTheAddressGivenOnly) {
  Fd listener;
  Endpoint bound;
  ASSERT_TRUE(Listen({"127.0.0.1", 0}, 1, &listener, &bound).ok());
  EXPECT_EQ(bound.host, "127.0.0.1");
  EXPECT_NE(bound.port, 0);
  EXPECT_NE(fcntl(listener.get(), F_GETFD) & FD_CLOEXEC, 0);
  Fd fd;  // 127.0.0.2 is this machine as well, but not this address
  EXPECT_FALSE(Connect({"127.0.0.2", bound.port}, Soon(), &fd).ok());
  EXPECT_EQ(Listen({"", 0}, 1, &listener, &bound).code(), StatusCode::kInvalidArgument);
}

TEST(Socket, ARefusedConnectionSaysWhereAndWhy) {
  Fd listener;
  Endpoint bound;
  ASSERT_TRUE(Listen({"127.0.0.1", 0}, 1, &listener, &bound).ok());
  listener.Reset();
  Fd fd;
  const Status status = Connect(bound, Soon(), &fd);
  EXPECT_TRUE(FailsWith(status, StatusCode::kIo, bound.ToString()));
  EXPECT_TRUE(Says(status, "refused"));
  EXPECT_FALSE(fd.valid());
}

TEST(Socket, APortInUseSaysSo) {
  Fd first;
  Fd second;
  Endpoint bound;
  Endpoint other;
  ASSERT_TRUE(Listen({"127.0.0.1", 0}, 1, &first, &bound).ok());
  const Status status = Listen(bound, 1, &second, &other);
  EXPECT_TRUE(Says(status, "in use"));
}

TEST(Socket, AConnectThatNobodyAnswersEndsAtItsDeadline) {
  // A listener whose queue is full drops SYNs, as a machine that is down does.
  Fd listener;
  Endpoint bound;
  ASSERT_TRUE(Listen({"127.0.0.1", 0}, 0, &listener, &bound).ok());
  std::vector<Fd> fill(4);
  Status status;
  const testing::Watchdog watchdog(60);
  for (Fd& fd : fill) {
    status = Connect(bound, Deadline::After(200 * kMillisecond), &fd);
    if (!status.ok()) break;
  }
  EXPECT_EQ(status.code(), StatusCode::kTimeout) << status.message();
}

TEST(Socket, ReadingEndsAtItsDeadlineAndSaysHowFarItCame) {
  Connection connection = MakeConnection();
  ASSERT_TRUE(WriteFull(connection.server.get(), "abc", 3, Soon(), "x").ok());
  bool there = false;
  ASSERT_TRUE(WaitFor(connection.client.get(), POLLIN, Soon(), &there).ok() && there);
  char data[8];
  const Status status =
      ReadFull(connection.client.get(), data, 8, Deadline::After(50 * kMillisecond), "rank 7");
  EXPECT_EQ(status.code(), StatusCode::kTimeout);
  EXPECT_EQ(status.message(), "no answer from rank 7 in time (3 of 8 bytes came)");
}

TEST(Socket, WritingToSomebodyWhoDoesNotReadEndsAtItsDeadline) {
  Connection connection = MakeConnection();
  const std::string data(64 << 20, 'x');
  const Status status = WriteFull(connection.client.get(), data.data(), data.size(),
                                  Deadline::After(50 * kMillisecond), "rank 7");
  EXPECT_TRUE(FailsWith(status, StatusCode::kTimeout, "rank 7 does not read"));
}

TEST(Socket, APeerThatLeavesIsAnErrorAndNeverASignal) {
  Connection connection = MakeConnection();
  connection.server.Reset();
  char data[8];
  const Status status = ReadFull(connection.client.get(), data, 8, Soon(), "rank 7");
  EXPECT_EQ(status.message(), "rank 7 closed the connection");
  const std::string large(1 << 20, 'x');  // SIGPIPE would end the test
  EXPECT_FALSE(
      WriteFull(connection.client.get(), large.data(), large.size(), Soon(), "rank 7").ok());
}

TEST(Socket, SignalsDoNotEndAReadOrAnAccept) {
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);  // without SA_RESTART
  Connection connection = MakeConnection();
  Status status;
  std::atomic<bool> done{false};
  std::thread reader([&] {
    char data[4];
    status = ReadFull(connection.client.get(), data, sizeof(data), Soon(), "rank 7");
    done = true;
  });
  for (int i = 0; i < 20; ++i) {
    pthread_kill(reader.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_FALSE(done);
  ASSERT_TRUE(WriteFull(connection.server.get(), "abcd", 4, Soon(), "x").ok());
  reader.join();
  EXPECT_TRUE(status.ok()) << status.message();
  sigaction(SIGUSR1, &before, nullptr);
}

TEST(Socket, AcceptReturnsNothingWhenNobodyIsAtTheDoor) {
  Fd listener;
  Endpoint bound;
  Endpoint peer;
  Fd fd;
  ASSERT_TRUE(Listen({"127.0.0.1", 0}, 1, &listener, &bound).ok());
  EXPECT_TRUE(TryAccept(listener.get(), &fd, &peer).ok());
  EXPECT_FALSE(fd.valid());
  const Status status = WaitAccept(listener.get(), Deadline::After(20 * kMillisecond), &fd, &peer);
  EXPECT_TRUE(FailsWith(status, StatusCode::kTimeout, bound.ToString()));
}

TEST(Resolve, KnowsNumbersAndLocalhost) {
  std::vector<SocketAddress> addresses;
  ASSERT_TRUE(Resolve({"10.1.2.3", 80}, Deadline::After(0), &addresses).ok());
  ASSERT_EQ(addresses.size(), 1u);
  EXPECT_EQ(addresses[0].ToEndpoint().ToString(), "10.1.2.3:80");
  ASSERT_TRUE(Resolve({"::1", 80}, Deadline::After(0), &addresses).ok());
  EXPECT_EQ(addresses[0].ToEndpoint().ToString(), "[::1]:80");
  ASSERT_TRUE(Resolve({"localhost", 80}, Soon(), &addresses).ok());
  EXPECT_FALSE(addresses.empty());
}

TEST(Resolve, ANameThatDoesNotExistIsNamedWithinTheDeadline) {
  std::vector<SocketAddress> addresses;
  const Nanos start = MonotonicNow();
  const Status status =
      Resolve({"no-such-host.invalid", 80}, Deadline::AfterSeconds(2), &addresses);
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(Says(status, "no-such-host.invalid"));
  EXPECT_LT(MonotonicNow() - start,
            2 * kSecond + static_cast<Nanos>(2 * testing::Patience()) * kSecond);
  EXPECT_EQ(Resolve({"", 80}, Soon(), &addresses).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hvdlite::transport::tcp
