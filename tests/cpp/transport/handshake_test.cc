#include "transport/tcp/handshake.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <utility>

#include "testing/says.h"
#include "testing/soon.h"
#include "testing/watchdog.h"
#include "transport/secret_of.h"
#include "transport/tcp/socket.h"

namespace hvdlite::transport::tcp {
namespace {

using Progress = Handshake::Progress;

struct Ends {
  Fd client;
  Fd server;
  Ends() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    client.Reset(fds[0]);
    server.Reset(fds[1]);
  }
};

// Turns both sides until neither moves.
void Turn(Handshake* client, Handshake* server, const Ends& ends) {
  for (int i = 0; i < 10; ++i) {
    client->Advance(ends.client.get());
    server->Advance(ends.server.get());
  }
}

void Put(int fd, const std::string& data) {
  EXPECT_EQ(send(fd, data.data(), data.size(), MSG_NOSIGNAL), static_cast<ssize_t>(data.size()));
}

std::string TakeAll(int fd) {
  char data[256];
  const ssize_t n = recv(fd, data, sizeof(data), MSG_DONTWAIT);
  return n > 0 ? std::string(data, static_cast<size_t>(n)) : "";
}

std::string Hello(char purpose = 1) {
  return "hvdlite1" + std::string(1, purpose) + std::string(32, 'n') +
         std::string(purpose == 1 ? 4 : 0, '\0');  // generation 0
}

TEST(Handshake, TwoWhoShareTheSecretMeetForEitherPurpose) {
  for (Purpose purpose : {Purpose::kStore, Purpose::kLink}) {
    Ends ends;
    ClientHandshake client(SecretOf(1), purpose, Soon(), "server");
    ServerHandshake server(SecretOf(1), purpose, Soon(), "client");
    Turn(&client, &server, ends);
    EXPECT_EQ(client.Advance(ends.client.get()), Progress::kDone) << client.status().message();
    EXPECT_EQ(server.Advance(ends.server.get()), Progress::kDone) << server.status().message();
  }
}

TEST(Handshake, WhatFollowsStaysInTheSocket) {
  Ends ends;
  ClientHandshake client(SecretOf(1), Purpose::kLink, Soon(), "server");
  ServerHandshake server(SecretOf(1), Purpose::kLink, Soon(), "client");
  client.Advance(ends.client.get());
  server.Advance(ends.server.get());
  ASSERT_EQ(client.Advance(ends.client.get()), Progress::kDone);
  Put(ends.client.get(), "first frame");
  ASSERT_EQ(server.Advance(ends.server.get()), Progress::kDone);
  EXPECT_EQ(TakeAll(ends.server.get()), "first frame");
}

TEST(Handshake, AWrongSecretIsSeenByTheClientBeforeItAnswers) {
  Ends ends;
  ClientHandshake client(SecretOf(1), Purpose::kLink, Soon(), "rank 3 at 10.0.0.5:80");
  ServerHandshake server(SecretOf(2), Purpose::kLink, Soon(), "client");
  Turn(&client, &server, ends);
  EXPECT_EQ(client.Advance(ends.client.get()), Progress::kFailed);
  EXPECT_EQ(
      client.status().message(),
      "rank 3 at 10.0.0.5:80 does not know this job's secret: another job may be listening there");
  EXPECT_EQ(server.Advance(ends.server.get()), Progress::kPending);  // no proof was sent to it
  ends.client.Reset();
  EXPECT_EQ(server.Advance(ends.server.get()), Progress::kFailed);
}

// Both sides' failures of a handshake between two generations.
std::pair<std::string, std::string> Refusals(uint32_t client_generation, uint32_t server_generation,
                                             const Secret& client_secret) {
  Ends ends;
  ClientHandshake client(client_secret, Purpose::kLink, Soon(), "rank 0", client_generation);
  ServerHandshake server(SecretOf(1), Purpose::kLink, Soon(), "a process", server_generation);
  Turn(&client, &server, ends);
  EXPECT_EQ(client.Advance(ends.client.get()), Progress::kFailed);
  EXPECT_EQ(server.Advance(ends.server.get()), Progress::kFailed);
  return {client.status().message(), server.status().message()};
}

TEST(Handshake, AProcessOfAnotherGenerationIsRefusedAndBothSidesNameBothGenerations) {
  for (uint8_t secret : {1, 2}) {  // a generation has a secret of its own, but the number is enough
    const auto [old_client, server] = Refusals(3, 70000, SecretOf(secret));
    EXPECT_EQ(old_client,
              "rank 0 is in generation 70000 of its job, but this rank is in generation 3: the "
              "earlier one is a process that has been left behind");
    EXPECT_EQ(server,
              "a process is in generation 3 of its job, but this rank is in generation 70000: the "
              "earlier one is a process that has been left behind");
    const auto [client, old_server] = Refusals(4, 3, SecretOf(secret));
    EXPECT_EQ(client.find("rank 0 is in generation 3 of its job, but this rank is in generation 4"),
              0u);
    EXPECT_EQ(old_server.find("a process is in generation 4 of its job, but this rank"), 0u);
  }
}

TEST(Handshake, AGenerationMeetsWithItsOwnSecretOnly) {
  const Secret job = SecretOf(1);
  const std::string nonce = "00112233445566778899aabbccddeeff";
  const Secret mine = SecretOfGeneration(job, 3, nonce);
  EXPECT_EQ(mine, SecretOfGeneration(job, 3, nonce));
  for (const Secret& other :
       {job, SecretOfGeneration(job, 2, nonce), SecretOfGeneration(SecretOf(2), 3, nonce),
        SecretOfGeneration(job, 3, std::string(32, '0'))}) {
    EXPECT_NE(mine, other);
    Ends ends;
    ClientHandshake liar(other, Purpose::kLink, Soon(), "rank 0", 3);
    ServerHandshake server(mine, Purpose::kLink, Soon(), "client", 3);
    Turn(&liar, &server, ends);
    EXPECT_EQ(liar.Advance(ends.client.get()), Progress::kFailed);
    EXPECT_EQ(liar.status().message().find("rank 0 does not know this job's secret"), 0u);
  }
  Ends ends;
  ClientHandshake client(mine, Purpose::kLink, Soon(), "server", 3);
  ServerHandshake server(mine, Purpose::kLink, Soon(), "client", 3);
  Turn(&client, &server, ends);
  EXPECT_EQ(client.Advance(ends.client.get()), Progress::kDone);
  EXPECT_EQ(server.Advance(ends.server.get()), Progress::kDone);
}

TEST(Handshake, TheStoreServesAllGenerations) {
  Ends ends;
  ClientHandshake client(SecretOf(1), Purpose::kStore, Soon(), "server", 3);
  ServerHandshake server(SecretOf(1), Purpose::kStore, Soon(), "client");
  Turn(&client, &server, ends);
  EXPECT_EQ(client.Advance(ends.client.get()), Progress::kDone);
  EXPECT_EQ(server.Advance(ends.server.get()), Progress::kDone);
}

TEST(Handshake, AClientWithoutTheSecretIsRefused) {
  Ends ends;
  ServerHandshake server(SecretOf(1), Purpose::kLink, Soon(), "127.0.0.1:5");
  Put(ends.client.get(), Hello());
  ASSERT_EQ(server.Advance(ends.server.get()), Progress::kPending);
  ASSERT_EQ(TakeAll(ends.client.get()).size(), 76u);
  Put(ends.client.get(), std::string(32, 'p'));
  EXPECT_EQ(server.Advance(ends.server.get()), Progress::kFailed);
  EXPECT_EQ(server.status().message(), "127.0.0.1:5 does not know this job's secret");
  EXPECT_EQ(server.Advance(ends.server.get()), Progress::kFailed);  // final
}

TEST(Handshake, TheServersOwnProofIsNoProofOfTheClient) {
  Ends ends;
  ServerHandshake server(SecretOf(1), Purpose::kLink, Soon(), "client");
  Put(ends.client.get(), Hello());
  server.Advance(ends.server.get());
  Put(ends.client.get(), TakeAll(ends.client.get()).substr(44));  // sent back as in a mirror
  EXPECT_EQ(server.Advance(ends.server.get()), Progress::kFailed);
}

TEST(Handshake, ARecordingIsWorthless) {
  std::string hello;
  std::string proof;
  {
    Ends ends;
    ClientHandshake client(SecretOf(1), Purpose::kLink, Soon(), "server");
    ServerHandshake server(SecretOf(1), Purpose::kLink, Soon(), "client");
    Ends wire;  // the recorder sits between client (ends) and server (wire)
    client.Advance(ends.client.get());
    Put(wire.client.get(), hello = TakeAll(ends.server.get()));
    server.Advance(wire.server.get());
    Put(ends.server.get(), TakeAll(wire.client.get()));
    ASSERT_EQ(client.Advance(ends.client.get()), Progress::kDone);
    Put(wire.client.get(), proof = TakeAll(ends.server.get()));
    ASSERT_EQ(server.Advance(wire.server.get()), Progress::kDone);
  }
  Ends ends;
  ServerHandshake server(SecretOf(1), Purpose::kLink, Soon(), "client");
  Put(ends.client.get(), hello + proof);
  EXPECT_EQ(server.Advance(ends.server.get()), Progress::kFailed);
  EXPECT_EQ(server.status().message(), "client does not know this job's secret");
}

TEST(Handshake, AnotherPurposeIsRefused) {
  Ends ends;
  ServerHandshake server(SecretOf(1), Purpose::kLink, Soon(), "client");
  Put(ends.client.get(), Hello(0));
  EXPECT_EQ(server.Advance(ends.server.get()), Progress::kFailed);
  EXPECT_TRUE(Says(server.status(), "purpose 0"));
  EXPECT_EQ(TakeAll(ends.client.get()), "");  // nothing is proved to it
}

TEST(Handshake, GarbageIsRefusedOnBothSides) {
  Ends ends;
  ServerHandshake server(SecretOf(1), Purpose::kLink, Soon(), "client");
  Put(ends.client.get(), "GET /");  // the first bytes are enough
  EXPECT_EQ(server.Advance(ends.server.get()), Progress::kFailed);
  EXPECT_TRUE(Says(server.status(), "does not speak hvdlite"));
  Ends others;
  ClientHandshake client(SecretOf(1), Purpose::kLink, Soon(), "server");
  client.Advance(others.client.get());
  Put(others.server.get(), "SSH-2.0-OpenSSH_9.2p1 " + std::string(64, 'x'));
  EXPECT_EQ(client.Advance(others.client.get()), Progress::kFailed);
  EXPECT_TRUE(Says(client.status(), "does not speak hvdlite"));
}

TEST(Handshake, BytesMayComeOneByOne) {
  Ends ends;
  Ends wire;
  ClientHandshake client(SecretOf(1), Purpose::kStore, Soon(), "server");
  ServerHandshake server(SecretOf(1), Purpose::kStore, Soon(), "client");
  for (int i = 0; i < 6; ++i) {
    client.Advance(ends.client.get());
    for (char c : TakeAll(ends.server.get())) {
      Put(wire.client.get(), std::string(1, c));
      server.Advance(wire.server.get());
    }
    for (char c : TakeAll(wire.client.get())) {
      Put(ends.server.get(), std::string(1, c));
      client.Advance(ends.client.get());
    }
  }
  EXPECT_EQ(client.Advance(ends.client.get()), Progress::kDone);
  EXPECT_EQ(server.Advance(wire.server.get()), Progress::kDone);
}

TEST(Handshake, SomebodyWhoDawdlesIsShownOutAtTheDeadline) {
  Ends ends;
  ServerHandshake server(SecretOf(1), Purpose::kLink, Deadline::After(50 * kMillisecond),
                         "127.0.0.1:5");
  Put(ends.client.get(), Hello().substr(0, 20));
  const testing::Watchdog watchdog(60);
  const Status status = WaitHandshake(ends.server.get(), &server);
  EXPECT_EQ(status.code(), StatusCode::kTimeout);
  EXPECT_EQ(
      status.message(),
      "127.0.0.1:5 did not finish the handshake in time: it stopped at byte 20 of 45 of step 1");
}

TEST(Handshake, AServerGivesAStrangerFiveSecondsAtMost) {
  const ServerHandshake server(SecretOf(1), Purpose::kLink, Deadline::Never(), "client");
  EXPECT_FALSE(server.deadline().never());
  EXPECT_LE(server.deadline().Left(), kHandshakeSpan);
}

TEST(Handshake, OneWhoDawdlesDoesNotDelayTheOthers) {
  Ends slow;
  Ends quick;
  ServerHandshake slow_server(SecretOf(1), Purpose::kLink, Soon(), "slow");
  ServerHandshake quick_server(SecretOf(1), Purpose::kLink, Soon(), "quick");
  ClientHandshake quick_client(SecretOf(1), Purpose::kLink, Soon(), "server");
  Put(slow.client.get(), "h");
  EXPECT_EQ(slow_server.Advance(slow.server.get()), Progress::kPending);
  EXPECT_EQ(slow_server.wants(), POLLIN);
  Turn(&quick_client, &quick_server, quick);
  EXPECT_EQ(quick_server.Advance(quick.server.get()), Progress::kDone);
  EXPECT_EQ(slow_server.Advance(slow.server.get()), Progress::kPending);
}

TEST(Handshake, APeerThatLeavesIsAnError) {
  Ends ends;
  ServerHandshake server(SecretOf(1), Purpose::kLink, Soon(), "127.0.0.1:5");
  Put(ends.client.get(), Hello());
  server.Advance(ends.server.get());
  ends.client.Reset();  // with step 2 unread: a reset, not an end of file
  EXPECT_EQ(server.Advance(ends.server.get()), Progress::kFailed);
  EXPECT_TRUE(Says(server.status(), "127.0.0.1:5 closed the connection during the handshake"));
}

TEST(Handshake, WorksOverTcpWithBothSidesWaiting) {
  Fd listener;
  Endpoint bound;
  ASSERT_TRUE(Listen({"127.0.0.1", 0}, 1, &listener, &bound).ok());
  Status served;
  std::thread thread([&] {
    Fd fd;
    Endpoint peer;
    served = WaitAccept(listener.get(), Soon(), &fd, &peer);
    if (!served.ok()) return;
    ServerHandshake server(SecretOf(9), Purpose::kLink, Soon(), peer.ToString());
    served = WaitHandshake(fd.get(), &server);
  });
  Fd fd;
  ASSERT_TRUE(Connect(bound, Soon(), &fd).ok());
  ClientHandshake client(SecretOf(9), Purpose::kLink, Soon(), bound.ToString());
  const Status status = WaitHandshake(fd.get(), &client);
  EXPECT_TRUE(status.ok()) << status.message();
  thread.join();
  EXPECT_TRUE(served.ok()) << served.message();
}

TEST(ParseSecret, WantsSixtyFourDigitsAndNeverRepeatsThem) {
  Secret secret;
  ASSERT_TRUE(ParseSecret("00ff" + std::string(60, 'A'), &secret).ok());
  EXPECT_EQ(secret[0], 0x00);
  EXPECT_EQ(secret[1], 0xff);
  EXPECT_EQ(secret[31], 0xaa);
  for (const std::string& bad :
       {std::string(), std::string("c0ffee"), std::string(63, 'a') + "g", std::string(66, 'a')}) {
    const Status status = ParseSecret(bad, &secret);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_FALSE(!bad.empty() && Says(status, bad));
  }
}

}  // namespace
}  // namespace hvdlite::transport::tcp
