// TcpStore against a server that is scripted in the test: the exact bytes, and everything a server
// can get wrong.
#include "rendezvous/tcp_store.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "testing/says.h"
#include "testing/soon.h"
#include "transport/secret_of.h"

namespace hvdlite::rendezvous {
namespace {

namespace tcp = transport::tcp;
using namespace std::string_literals;

// Accepts one client, shakes hands and lets the script talk to it. Every step has a deadline.
class ScriptedServer {
 public:
  explicit ScriptedServer(std::function<void(int fd)> script) {
    EXPECT_TRUE(tcp::Listen({"127.0.0.1", 0}, 4, &listener_, &address_).ok());
    thread_ = std::thread([this, script] {
      Fd fd;
      tcp::Endpoint peer;
      if (!tcp::WaitAccept(listener_.get(), Soon(), &fd, &peer).ok()) return;
      tcp::ServerHandshake handshake(tcp::SecretOf(1), tcp::Purpose::kStore, Soon(),
                                     peer.ToString());
      if (tcp::WaitHandshake(fd.get(), &handshake).ok()) script(fd.get());
    });
  }
  ~ScriptedServer() { thread_.join(); }
  const tcp::Endpoint& address() const { return address_; }
  std::unique_ptr<TcpStore> Connect() const {
    std::unique_ptr<TcpStore> store;
    const Status status = TcpStore::Connect(address_, tcp::SecretOf(1), Soon(), &store);
    EXPECT_TRUE(status.ok()) << status.message();
    return store;
  }

 private:
  Fd listener_;
  tcp::Endpoint address_;
  std::thread thread_;
};

void Want(int fd, const std::string& expected) {
  std::string got(expected.size(), '\0');
  EXPECT_TRUE(tcp::ReadFull(fd, got.data(), got.size(), Soon(), "client").ok());
  EXPECT_EQ(got, expected);
}

void Take(int fd, size_t bytes) {
  std::string got(bytes, '\0');
  EXPECT_TRUE(tcp::ReadFull(fd, got.data(), got.size(), Soon(), "client").ok());
}

void Give(int fd, const std::string& data) {
  EXPECT_TRUE(tcp::WriteFull(fd, data.data(), data.size(), Soon(), "client").ok());
}

std::string Frame(char sequence, const std::string& payload) {
  return ""s + sequence + "\0\0\0"s + static_cast<char>(payload.size()) + "\0\0\0\0\0\0\0"s +
         payload;
}

TEST(TcpStore, SendsAndUnderstandsTheBytesOfTheWirePage) {
  ScriptedServer server([](int fd) {
    Want(fd, Frame(0, "\1\3\0\0\0key\0\0\0\0value"s));
    Give(fd, Frame(0, "\0"s));
    Want(fd, Frame(1, "\2\1\0\0\0k\xff\xff\xff\xff"s));
    Give(fd, Frame(1, "\0some\0thing"s));
    Want(fd, Frame(2, "\3\1\0\0\0m\xff\xff\xff\xff\2\0\0\0"s));
    Give(fd, Frame(2, "\0\1\0\0\0\0\0\0\0a\0\0\0\0\0\0\0\0"s));
    Want(fd, Frame(3, "\4\1\0\0\0n\0\0\0\0\xfe\xff\xff\xff\xff\xff\xff\xff"s));
    Give(fd, Frame(3, "\0\5\0\0\0\0\0\0\0"s));
    Want(fd, Frame(4, "\5\1\0\0\0n\0\0\0\0"s));
    Give(fd, Frame(4, "\0"s));
  });
  const auto store = server.Connect();
  EXPECT_TRUE(store->Set("key", "value").ok());
  std::string value;
  EXPECT_TRUE(store->Get("k", Deadline::Never(), &value).ok());
  EXPECT_EQ(value, "some\0thing"s);
  std::vector<std::string> values;
  EXPECT_TRUE(store->Collect("m", 2, Deadline::Never(), &values).ok());
  EXPECT_EQ(values, (std::vector<std::string>{"a", ""}));
  int64_t sum = 0;
  EXPECT_TRUE(store->Add("n", -2, &sum).ok());
  EXPECT_EQ(sum, 5);
  EXPECT_TRUE(store->Delete("n").ok());
}

// Joins rendezvous "j" as rank 1 of 3; the server's part of it.
void GiveSeat(int fd, const std::string& served_by = "\xff\xff\xff\xff"s) {
  Want(fd, Frame(0, "\6\1\0\0\0j\1\0\0\0\3\0\0\0"s));
  Give(fd, Frame(0, "\0\2\0\0\0"s + served_by));
}

void Join(TcpStore* store) {
  std::string prefix;
  ASSERT_TRUE(store->Join("j", 1, 3, &prefix).ok());
  EXPECT_EQ(prefix, "j/2/");
}

// Looks until there is news.
Status Await(TcpStore* store) {
  const Deadline deadline = Soon();
  Status status;
  while ((status = store->Look()).ok() && !deadline.Passed()) usleep(1000);
  return status;
}

const std::string kRank2Died = "\3\2\0\0\0\4\4\2\7\0\0\0\1\1\0\0rank 2 died"s;

TEST(TcpStore, JoinsArrivesAndFailsInTheBytesOfTheWirePage) {
  ScriptedServer server([](int fd) {
    GiveSeat(fd);
    Want(fd, Frame(1, "\7\1\0\0\0j\xff\xff\xff\xff"s));
    Give(fd, Frame(1, "\0"s));
    Want(fd,
         Frame(2, "\10\1\0\0\0j\0\0\0\0\1\0\0\0\4\6\0rank 1 could not join the job: no memory"s));
    Give(fd, Frame(2, "\0"s));
  });
  const auto store = server.Connect();
  EXPECT_TRUE(store->Look().ok()) << "before it has joined there is nothing to look for";
  Join(store.get());
  EXPECT_TRUE(store->Look().ok());
  EXPECT_TRUE(store->Arrive(Deadline::Never()).ok());
  EXPECT_EQ(store->Fail(Status::Io("no memory")).code(), StatusCode::kIo)
      << "the caller hears what happened here";
  EXPECT_EQ(store->Fail(Status::Io("again")).message(), "again") << "said once";
}

TEST(TcpStore, ALossEndsTheWaitTheNextRequestAndALook) {
  for (int how = 0; how < 3; ++how) {
    ScriptedServer server([how](int fd) {
      GiveSeat(fd);
      if (how == 0) Take(fd, 12 + 10);  // the get it waits in
      Give(fd, Frame(1, kRank2Died));
      if (how == 1) Take(fd, 12 + 10);  // sent while the news was on its way
    });
    const auto store = server.Connect();
    Join(store.get());
    std::string value;
    const Status lost = how < 2 ? store->Get("k", Deadline::Never(), &value) : Await(store.get());
    EXPECT_EQ(lost.code(), StatusCode::kPeerLost) << how << lost.ToString();
    EXPECT_EQ(lost.peer(), 2);
    EXPECT_TRUE(IsLossBy(Cause::kNetwork, {2, 7, 257}, lost));
    EXPECT_EQ(lost.message(), "rank 2 died");
    EXPECT_EQ(store->Look().peer(), 2) << "it goes on saying so";
    EXPECT_EQ(store->Set("k", "").peer(), 2);
    EXPECT_EQ(store->Arrive(Deadline::Never()).peer(), 2);
    EXPECT_EQ(store->Fail(Status::PeerLost(0, "rank 0 hung up")).peer(), 2)
        << "the first failure is the cause";
  }
}

TEST(TcpStore, AVerdictWithoutWordsIsStillToldInWords) {
  ScriptedServer server([](int fd) {
    GiveSeat(fd);
    Take(fd, 12 + 10);
    Give(fd, Frame(1, "\3\2\0\0\0\4\1\0"s));
  });
  const auto store = server.Connect();
  Join(store.get());
  std::string value;
  const Status lost = store->Get("k", Deadline::Never(), &value);
  EXPECT_TRUE(FailsWith(lost, StatusCode::kIo, "ended the rendezvous without a reason"));
}

TEST(TcpStore, AFailureThatCameFirstIsTheOneToReport) {
  ScriptedServer server([](int fd) {
    GiveSeat(fd);
    Take(fd, 12 + 10 + 7 + 14);
    Give(fd, Frame(1, "\3\xff\xff\xff\xff\6\0\0nobody came"s));
  });
  const auto store = server.Connect();
  Join(store.get());
  const Status status = store->Fail(Status::PeerLost(0, "rank 0 hung up"));
  EXPECT_EQ(status.code(), StatusCode::kTimeout);
  EXPECT_EQ(status.message(), "nobody came");
}

TEST(TcpStore, AServerThatEndsIsNamedByTheRankItRanIn) {
  for (const bool in_rank_0 : {true, false}) {
    ScriptedServer server(
        [in_rank_0](int fd) { GiveSeat(fd, in_rank_0 ? "\0\0\0\0"s : "\xff\xff\xff\xff"s); });
    const auto store = server.Connect();
    Join(store.get());
    const Status status = Await(store.get());
    EXPECT_EQ(status.code(), in_rank_0 ? StatusCode::kPeerLost : StatusCode::kIo)
        << status.ToString();
    EXPECT_EQ(status.peer(), in_rank_0 ? 0 : Status::kNoPeer);
  }
}

TEST(TcpStore, NewsThatMakesNoSenseEndsTheRendezvous) {
  for (const std::string& news :
       {Frame(1, "\0"s), Frame(1, "\3\0"s), Frame(5, kRank2Died), "\1\0"s,
        Frame(1, "\3\2\0\0\0\4\1\4\0\0\0\0few ranks"s), Frame(1, "\3\2\0\0\0\4\x7f\0no cause"s)}) {
    ScriptedServer server([&](int fd) {
      GiveSeat(fd);
      Give(fd, news);
    });
    const auto store = server.Connect();
    Join(store.get());
    EXPECT_EQ(Await(store.get()).code(), StatusCode::kIo);
  }
}

TEST(TcpStore, ATimeoutOrARefusalDoesNotEndTheConnection) {
  ScriptedServer server([](int fd) {
    Take(fd, 12 + 10);
    Give(fd, Frame(0, "\1nobody set 'k'"s));
    Take(fd, 12 + 18);
    Give(fd, Frame(1, "\2not a counter"s));
    Take(fd, 12 + 10);
    Give(fd, Frame(2, "\0"s));
  });
  const auto store = server.Connect();
  std::string value;
  Status status = store->Get("k", Deadline::After(kMillisecond), &value);
  EXPECT_TRUE(FailsWith(status, StatusCode::kTimeout, "nobody set 'k'"));
  EXPECT_TRUE(Says(status, server.address().ToString()));
  int64_t sum = 0;
  status = store->Add("k", 1, &sum);
  EXPECT_TRUE(FailsWith(status, StatusCode::kInvalidArgument, "not a counter"));
  EXPECT_TRUE(store->Set("k", "").ok());
}

TEST(TcpStore, AReplyThatMakesNoSenseEndsTheConnectionForGood) {
  const std::string huge = "\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\x7f"s;
  for (const std::string& reply : {Frame(1, "\0"s), huge, Frame(0, ""), Frame(0, "\7"s), "\0\0"s}) {
    ScriptedServer server([&](int fd) {
      Take(fd, 12 + 10);
      Give(fd, reply);
    });
    const auto store = server.Connect();
    const Status status = store->Set("k", "");
    EXPECT_TRUE(FailsWith(status, StatusCode::kIo, server.address().ToString()));
    EXPECT_EQ(store->Set("other", "").message(), status.message());
  }
}

TEST(TcpStore, ACollectReplyThatDoesNotAddUpIsAnError) {
  for (const std::string& reply :
       {"\0"s, "\0\1\0\0\0\0\0\0\0"s, "\0\xff\xff\xff\xff\xff\xff\xff\xff"s + "a",
        "\0\1\0\0\0\0\0\0\0ab"s}) {
    ScriptedServer server([&](int fd) {
      Take(fd, 12 + 14);
      Give(fd, Frame(0, reply));
    });
    const auto store = server.Connect();
    std::vector<std::string> values;
    EXPECT_EQ(store->Collect("k", 1, Soon(), &values).code(), StatusCode::kIo);
    EXPECT_TRUE(values.empty());
  }
}

TEST(TcpStore, RefusesWhatDoesNotFitBeforeSendingIt) {
  ScriptedServer server([](int fd) {
    Take(fd, 12 + 10);
    Give(fd, Frame(0, "\0"s));
  });
  const auto store = server.Connect();
  EXPECT_EQ(store->Set("", "x").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(store->Set(std::string(4097, 'k'), "x").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(store->Set("k", std::string(64 << 20, 'x')).code(), StatusCode::kInvalidArgument);
  std::vector<std::string> values;
  EXPECT_EQ(store->Collect("k", -1, Soon(), &values).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(store->Set("k", "").ok());
}

TEST(TcpStore, AnotherThreadsWaitEndsAtItsOwnDeadline) {
  std::atomic<bool> asked{false}, given_up{false};
  ScriptedServer server([&](int fd) {
    Take(fd, 12 + 10);
    asked = true;
    while (!given_up) usleep(100);
    Give(fd, Frame(0, "\0v"s));
    Take(fd, 12 + 10);
    Give(fd, Frame(1, "\0"s));
  });
  const auto store = server.Connect();
  std::string value;
  std::thread waiter([&] { EXPECT_TRUE(store->Get("k", Soon(), &value).ok()); });
  while (!asked) usleep(100);
  std::string other;
  const Status status = store->Get("z", Deadline::After(20 * kMillisecond), &other);
  given_up = true;
  EXPECT_TRUE(FailsWith(status, StatusCode::kTimeout, "another thread"));
  EXPECT_TRUE(store->Set("k", "").ok());  // waits its turn
  waiter.join();
  EXPECT_EQ(value, "v");
}

TEST(TcpStore, AWrongSecretFailsAtOnce) {
  ScriptedServer server([](int) { ADD_FAILURE() << "the handshake went through"; });
  std::unique_ptr<TcpStore> store;
  const Status status = TcpStore::Connect(server.address(), tcp::SecretOf(2), Soon(), &store);
  EXPECT_EQ(status.code(), StatusCode::kIo) << "not a timeout";
  EXPECT_TRUE(Says(status, "does not know this job's secret"));
  EXPECT_EQ(store, nullptr);
}

TEST(TcpStore, WaitsForAServerThatStartsLater) {
  Fd listener;
  tcp::Endpoint address;
  ASSERT_TRUE(tcp::Listen({"127.0.0.1", 0}, 4, &listener, &address).ok());
  listener.Reset();
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    tcp::Endpoint bound;
    tcp::Endpoint peer;
    Fd fd;
    ASSERT_TRUE(tcp::Listen(address, 4, &listener, &bound).ok());
    ASSERT_TRUE(tcp::WaitAccept(listener.get(), Soon(), &fd, &peer).ok());
    tcp::ServerHandshake handshake(tcp::SecretOf(1), tcp::Purpose::kStore, Soon(), peer.ToString());
    EXPECT_TRUE(tcp::WaitHandshake(fd.get(), &handshake).ok());
  });
  std::unique_ptr<TcpStore> store;
  const Status status = TcpStore::Connect(address, tcp::SecretOf(1), Soon(), &store);
  EXPECT_TRUE(status.ok()) << status.message();
  late.join();
}

TEST(TcpStore, AServerThatIsNotThereIsNamedAtTheDeadline) {
  Fd listener;
  tcp::Endpoint address;
  ASSERT_TRUE(tcp::Listen({"127.0.0.1", 0}, 4, &listener, &address).ok());
  listener.Reset();
  std::unique_ptr<TcpStore> store;
  const Status status =
      TcpStore::Connect(address, tcp::SecretOf(1), Deadline::After(100 * kMillisecond), &store);
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(Says(status, address.ToString()));
  EXPECT_TRUE(Says(status, "launcher"));
}

}  // namespace
}  // namespace hvdlite::rendezvous
