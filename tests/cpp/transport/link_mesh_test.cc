// The mesh: ranks as threads over real loopback sockets, among strangers of every kind.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "testing/says.h"
#include "testing/watchdog.h"
#include "transport/secret_of.h"
#include "transport/tcp/mesh.h"

namespace hvdlite::transport::tcp {
namespace {

constexpr uint32_t kGroup = 7;
constexpr uint32_t kGeneration = 2;
const auto kPatience = static_cast<Nanos>(30 * testing::Patience() * static_cast<double>(kSecond));

struct Host {
  std::unique_ptr<LinkListener> listener;
  std::vector<std::unique_ptr<Link>> links;
  Status status;
};

LinkIdentity Me(uint32_t rank) {
  return {rank, kGeneration, SecretOf(1)};
}

std::unique_ptr<LinkListener> DoorOf(const LinkIdentity& me,
                                     const std::string& address = "127.0.0.1") {
  std::unique_ptr<LinkListener> door;
  const Status status = LinkListener::Open({address, 0}, 64, me, nullptr, &door);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return door;
}

std::vector<Host> OpenDoors(int size, const std::string& address = "127.0.0.1") {
  std::vector<Host> hosts(static_cast<size_t>(size));
  uint32_t rank = 0;
  for (Host& host : hosts) host.listener = DoorOf(Me(rank++), address);
  return hosts;
}

std::vector<MeshPeer> PeersOf(const std::vector<Host>& hosts) {
  std::vector<MeshPeer> peers;
  for (size_t i = 0; i < hosts.size(); ++i)
    peers.push_back({static_cast<int>(i), {hosts[i].listener->endpoint()}});
  return peers;
}

// All ranks at once; rank i begins i * stagger later.
void ConnectAll(std::vector<Host>* hosts, const std::vector<MeshPeer>& peers,
                uint32_t group = kGroup, Nanos patience = kPatience, Nanos stagger = 0) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < hosts->size(); ++i) {
    threads.emplace_back([=, &host = (*hosts)[i], &peers] {
      std::this_thread::sleep_for(std::chrono::nanoseconds(stagger * static_cast<Nanos>(i)));
      host.status =
          ConnectMesh(group, peers, host.listener.get(), Deadline::After(patience), &host.links);
    });
  }
  for (auto& thread : threads) thread.join();
}

// Each link carries a word that only its two ends know.
void ExpectLinksLeadWhereTheySay(std::vector<Host>* hosts) {
  const int n = static_cast<int>(hosts->size());
  for (int i = 0; i < n; ++i) {
    ASSERT_TRUE((*hosts)[i].status.ok()) << (*hosts)[i].status.ToString();
    ASSERT_EQ((*hosts)[i].links.size(), static_cast<size_t>(n));
    for (int j = 0; j < n; ++j) {
      if (i == j) {
        EXPECT_EQ((*hosts)[i].links[j], nullptr);
        continue;
      }
      EXPECT_EQ((*hosts)[i].links[j]->peer(), j);
      const int word = i * 100 + j;
      size_t moved = 0;
      ASSERT_TRUE((*hosts)[i].links[j]->TrySend(&word, sizeof(word), &moved).ok());
      ASSERT_EQ(moved, sizeof(word));
    }
  }
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      if (i == j) continue;
      int word = -1;
      size_t moved = 0;
      const Deadline deadline = Deadline::After(kPatience);
      while (moved == 0 && !deadline.Passed()) {
        ASSERT_TRUE((*hosts)[i].links[j]->TryReceive(&word, sizeof(word), &moved).ok());
      }
      EXPECT_EQ(word, j * 100 + i);
    }
  }
}

std::string CongestionControl(int fd) {
  char name[16] = {};
  socklen_t length = sizeof(name);
  EXPECT_EQ(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length), 0);
  return name;
}

TEST(LinkMesh, NoLinkWithAShortWayPacesItsPackets) {
  const Fd fresh(socket(AF_INET, SOCK_STREAM, 0));
  const std::string of_system = CongestionControl(fresh.get());
  const std::string expected = of_system.starts_with("bbr") ? "reno" : of_system;
  auto hosts = OpenDoors(2);
  ConnectAll(&hosts, PeersOf(hosts));
  ExpectLinksLeadWhereTheySay(&hosts);
  EXPECT_EQ(CongestionControl(hosts[0].links[1]->fd()), expected);
  EXPECT_EQ(CongestionControl(hosts[1].links[0]->fd()), expected);
}

TEST(LinkMesh, JoinsEveryRankToEveryOther) {
  for (int size : {1, 2, 3, 5, 8}) {
    auto hosts = OpenDoors(size);
    ConnectAll(&hosts, PeersOf(hosts));
    ExpectLinksLeadWhereTheySay(&hosts);
  }
}

TEST(LinkMesh, WorksOverIpv6) {
  Fd probe;
  Endpoint bound;
  if (!Listen({"::1", 0}, 1, &probe, &bound).ok())
    GTEST_SKIP() << "this machine has no IPv6 loopback";
  auto hosts = OpenDoors(3, "::1");
  ConnectAll(&hosts, PeersOf(hosts));
  ExpectLinksLeadWhereTheySay(&hosts);
}

TEST(LinkMesh, RanksMayBeginInAnyOrderAndSeveralMeshesShareTheListeners) {
  auto hosts = OpenDoors(4);
  const auto peers = PeersOf(hosts);
  ConnectAll(&hosts, peers, 1, kPatience, 60 * kMillisecond);
  ExpectLinksLeadWhereTheySay(&hosts);
  std::vector<std::vector<std::unique_ptr<Link>>> first;
  for (auto& host : hosts) first.push_back(std::move(host.links));
  ConnectAll(&hosts, peers, 2);
  ExpectLinksLeadWhereTheySay(&hosts);
}

TEST(LinkMesh, ADoorThatOpensLateIsTriedAgain) {
  auto hosts = OpenDoors(2);
  const Endpoint at = hosts[0].listener->endpoint();
  const auto peers = PeersOf(hosts);
  hosts[0].listener.reset();
  std::thread early([&] {
    hosts[1].status = ConnectMesh(kGroup, peers, hosts[1].listener.get(),
                                  Deadline::After(kPatience), &hosts[1].links);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const Status opened = LinkListener::Open(at, 64, Me(0), nullptr, &hosts[0].listener);
  if (opened.ok()) {
    hosts[0].status = ConnectMesh(kGroup, peers, hosts[0].listener.get(),
                                  Deadline::After(kPatience), &hosts[0].links);
  }
  early.join();
  ASSERT_TRUE(opened.ok()) << opened.ToString();
  ExpectLinksLeadWhereTheySay(&hosts);
}

TEST(LinkMesh, AMissingPeerIsNamedWithItsAddressAndTheSystemsWord) {
  auto hosts = OpenDoors(3);
  const auto peers = PeersOf(hosts);
  hosts[0].listener.reset();  // nobody listens there any more
  std::thread other([&] {
    hosts[2].status = ConnectMesh(kGroup, peers, hosts[2].listener.get(),
                                  Deadline::After(500 * kMillisecond), &hosts[2].links);
  });
  hosts[1].status = ConnectMesh(kGroup, peers, hosts[1].listener.get(),
                                Deadline::After(500 * kMillisecond), &hosts[1].links);
  other.join();
  for (size_t i : {1u, 2u}) {
    const Status& status = hosts[i].status;
    EXPECT_EQ(status.code(), StatusCode::kTimeout);
    EXPECT_TRUE(IsLossBy(Cause::kNetwork, {0, static_cast<int>(i)}, status));
    EXPECT_TRUE(hosts[i].links.empty());
    EXPECT_TRUE(Says(status, "rank 0"));
    EXPECT_TRUE(Says(status, peers[0].candidates[0].ToString()));
    EXPECT_TRUE(Says(status, "Connection refused"));
  }
}

TEST(LinkMesh, APeerThatNeverCallsIsNamed) {
  auto hosts = OpenDoors(2);
  const auto peers = PeersOf(hosts);
  const Status status = ConnectMesh(kGroup, peers, hosts[0].listener.get(),
                                    Deadline::After(200 * kMillisecond), &hosts[0].links);
  EXPECT_EQ(status.peer(), 1);
  EXPECT_TRUE(Says(status, "rank 1"));
  EXPECT_TRUE(Says(status, "did not connect to rank 0"));
}

TEST(LinkMesh, AllPeersThatAreMissingAreGivenBehindTheOneThatMissesThem) {
  auto hosts = OpenDoors(4);
  const auto peers = PeersOf(hosts);
  const Status status = ConnectMesh(kGroup, peers, hosts[1].listener.get(),
                                    Deadline::After(200 * kMillisecond), &hosts[1].links);
  EXPECT_TRUE(IsLossBy(Cause::kNetwork, {0, 1, 2, 3}, status));
}

TEST(LinkMesh, NewsOfADeathEndsTheWaitForIt) {
  auto hosts = OpenDoors(2);
  const auto peers = PeersOf(hosts);
  const Nanos start = MonotonicNow();
  const auto look = [start] {
    return MonotonicNow() - start < 100 * kMillisecond ? Status::Ok()
                                                       : Status::PeerLost(1, "rank 1 died");
  };
  for (int me : {0, 1}) {  // waits to be called, and calls
    const Status status = ConnectMesh(kGroup, peers, hosts[static_cast<size_t>(me)].listener.get(),
                                      Until(Deadline::After(kPatience), look), &hosts[0].links);
    EXPECT_EQ(status.message(), "rank 1 died");
    EXPECT_TRUE(hosts[0].links.empty());
  }
  EXPECT_LT(MonotonicNow() - start, kPatience / 2);
}

TEST(LinkMesh, AddressesThatLeadElsewhereCostLittle) {
  auto hosts = OpenDoors(4);
  auto peers = PeersOf(hosts);
  // First a closed port, then another rank of the same job, then somebody who never says a word.
  Fd closed, silent;
  Endpoint closed_at, silent_at;
  ASSERT_TRUE(Listen({"127.0.0.1", 0}, 1, &closed, &closed_at).ok());
  ASSERT_TRUE(Listen({"127.0.0.1", 0}, 64, &silent, &silent_at).ok());
  closed.Reset();
  for (size_t i = 0; i < peers.size(); ++i) {
    const Endpoint right = hosts[i].listener->endpoint();
    const Endpoint wrong = hosts[(i + 1) % hosts.size()].listener->endpoint();
    peers[i].candidates = {closed_at, wrong, silent_at, right};
  }
  const Nanos begin = MonotonicNow();
  ConnectAll(&hosts, peers);
  EXPECT_LT(MonotonicNow() - begin, kPatience / 3);
  ExpectLinksLeadWhereTheySay(&hosts);
  for (const Host& host : hosts) EXPECT_EQ(host.listener->parked(), 0u) << "one meant for another";
}

// Throws bytes at a door until told to stop.
class Stranger {
 public:
  Stranger(const Endpoint& door, std::string words) : door_(door), words_(std::move(words)) {
    thread_ = std::thread([this] {
      std::vector<Fd> held;
      while (!stop_) {
        Fd fd;
        if (!tcp::Connect(door_, Deadline::After(kSecond), &fd).ok()) continue;
        if (!words_.empty()) {
          [[maybe_unused]] const ssize_t n =
              send(fd.get(), words_.data(), words_.size(), MSG_NOSIGNAL);
        }
        held.push_back(std::move(fd));
        if (held.size() > 50) held.clear();
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    });
  }
  ~Stranger() {
    stop_ = true;
    thread_.join();
  }

 private:
  const Endpoint door_;
  const std::string words_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST(LinkMesh, StrangersDisturbNobody) {
  auto hosts = OpenDoors(4);
  const auto peers = PeersOf(hosts);
  Stranger silent(hosts[0].listener->endpoint(), "");
  Stranger dawdler(hosts[0].listener->endpoint(), "hvdlite1");
  Stranger garbage(hosts[1].listener->endpoint(), std::string(5000, 'x'));
  Stranger web(hosts[2].listener->endpoint(), "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  for (uint32_t group = 0; group < 5; ++group) {
    ConnectAll(&hosts, peers, group);
    ExpectLinksLeadWhereTheySay(&hosts);
  }
}

// hosts[1] calls for that long in vain; hosts[0] is at its door until then.
void ExpectNoLink(std::vector<Host>* hosts, Nanos span, const char* why) {
  Host &there = (*hosts)[0], &caller = (*hosts)[1];
  const auto peers = PeersOf(*hosts);
  std::atomic<bool> gone{false};
  std::thread calls([&] {
    caller.status =
        ConnectMesh(kGroup, peers, caller.listener.get(), Deadline::After(span), &caller.links);
    gone = true;
  });
  const auto look = [&gone] { return gone ? Status::Timeout("it has given up") : Status::Ok(); };
  there.status = ConnectMesh(kGroup, peers, there.listener.get(),
                             Until(Deadline::After(kPatience), look), &there.links);
  calls.join();
  EXPECT_EQ(there.status.message(), "it has given up");
  EXPECT_TRUE(Says(caller.status, why));
  EXPECT_EQ(there.listener->parked(), 0u);
  EXPECT_TRUE(there.links.empty());
}

TEST(LinkMesh, AWrongSecretGetsNoLink) {
  auto hosts = OpenDoors(2);
  hosts[1].listener = DoorOf({1, kGeneration, SecretOf(2)});
  ExpectNoLink(&hosts, 3 * kSecond, "secret");
  EXPECT_EQ(hosts[1].status.code(), StatusCode::kTimeout);
}

// Turns the door and carries bytes between `client` and a new connection to it until `done`; what
// the client said.
std::string Eavesdrop(LinkListener* door, int client, const std::function<bool()>& done) {
  Fd server;
  EXPECT_TRUE(Connect(door->endpoint(), Deadline::After(kPatience), &server).ok());
  std::string heard;
  const Deadline deadline = Deadline::After(5 * kSecond);
  while (!done() && !deadline.Passed()) {
    EXPECT_TRUE(door->Turn().ok());
    char buffer[256];
    ssize_t n = recv(client, buffer, sizeof(buffer), MSG_DONTWAIT);
    if (n > 0) {
      heard.append(buffer, static_cast<size_t>(n));
      EXPECT_EQ(send(server.get(), buffer, static_cast<size_t>(n), MSG_NOSIGNAL), n);
    }
    n = recv(server.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (n <= 0) continue;
    EXPECT_EQ(send(client, buffer, static_cast<size_t>(n), MSG_NOSIGNAL), n);
  }
  EXPECT_TRUE(done());
  return heard;
}

TEST(LinkMesh, ARecordedHandshakeIsWorthless) {
  auto hosts = OpenDoors(1);
  LinkListener& door = *hosts[0].listener;
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
  const Fd ours(fds[0]), theirs(fds[1]);
  ClientHandshake handshake(SecretOf(1), Purpose::kLink, Deadline::After(5 * kSecond), "the door",
                            kGeneration);
  bool said = false;
  const std::string heard = Eavesdrop(&door, theirs.get(), [&] {
    if (!said && handshake.Advance(ours.get()) == Handshake::Progress::kDone) {
      const auto hello = Encode(LinkHello{kGroup, 1, 0, 0});
      said = send(ours.get(), hello.data(), hello.size(), MSG_NOSIGNAL) ==
             static_cast<ssize_t>(hello.size());
    }
    return door.parked() == 1;
  });
  ASSERT_EQ(heard.size(), 45u + 32u + kLinkHelloBytes);
  // The same bytes again: the door's nonce is another one.
  Fd replay;
  ASSERT_TRUE(Connect(door.endpoint(), Deadline::After(kPatience), &replay).ok());
  ASSERT_TRUE(
      WriteFull(replay.get(), heard.data(), heard.size(), Deadline::After(kPatience), "the door")
          .ok());
  bool stood = false;
  const Deadline deadline = Deadline::After(4 * kSecond);
  while (!(stood && door.standing() == 0) && !deadline.Passed()) {
    ASSERT_TRUE(door.Turn().ok());
    char answer[128];
    // It has been let in.
    stood = stood || recv(replay.get(), answer, sizeof(answer), MSG_DONTWAIT) >= 0;
  }
  EXPECT_EQ(door.standing(), 0u);
  EXPECT_EQ(door.parked(), 1u);  // only the first
}

TEST(LinkMesh, WhoeverDawdlesIsShownOutAfterFiveSeconds) {
  auto hosts = OpenDoors(1);
  LinkListener& door = *hosts[0].listener;
  Fd silent, half;
  ASSERT_TRUE(Connect(door.endpoint(), Deadline::After(kPatience), &silent).ok());
  ASSERT_TRUE(Connect(door.endpoint(), Deadline::After(kPatience), &half).ok());
  ClientHandshake handshake(SecretOf(1), Purpose::kLink, Deadline::After(5 * kSecond), "the door",
                            kGeneration);
  const Nanos begin = MonotonicNow();
  // A friend who finishes the handshake, but then says only a part of its hello.
  while (handshake.Advance(half.get()) == Handshake::Progress::kPending)
    ASSERT_TRUE(door.Turn().ok());
  ASSERT_TRUE(handshake.status().ok());
  ASSERT_EQ(send(half.get(), "abc", 3, MSG_NOSIGNAL), 3);
  const Deadline watchdog = Deadline::After(kPatience);
  do {
    ASSERT_TRUE(door.Turn().ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  } while (door.standing() > 0 && !watchdog.Passed());
  EXPECT_EQ(door.standing(), 0u);
  EXPECT_GE(MonotonicNow() - begin, kHandshakeSpan - 10 * kMillisecond);
  char byte;
  pollfd end{silent.get(), POLLIN, 0};
  ASSERT_EQ(poll(&end, 1, static_cast<int>(kPatience / kMillisecond)), 1);
  EXPECT_EQ(recv(silent.get(), &byte, 1, MSG_DONTWAIT), 0);
}

TEST(LinkMesh, AProcessOfAnEarlierGenerationGetsNoLinkAndBothGenerationsAreNamed) {
  const Secret job = SecretOf(9);
  const auto at = [&](uint32_t rank, uint32_t generation) {
    return DoorOf({rank, generation, SecretOfGeneration(job, generation, "nonce")});
  };
  auto hosts = OpenDoors(0);
  hosts.resize(2);
  hosts[0].listener = at(0, kGeneration);
  hosts[1].listener = at(1, kGeneration - 1);
  ExpectNoLink(&hosts, kSecond, "is in generation 2 of its job, but this rank is in generation 1");
}

}  // namespace
}  // namespace hvdlite::transport::tcp
