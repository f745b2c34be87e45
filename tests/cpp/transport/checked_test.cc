#include "transport/checked.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "comm/link_checks.h"
#include "testing/byte_stream.h"
#include "testing/fault_transport.h"
#include "testing/loopback.h"
#include "testing/says.h"

namespace hvdlite::transport {
namespace {

using testing::ExpectToArrive;
using testing::Faults;
using testing::FaultTransport;
using testing::Letters;
using testing::Loopback;

// What the wire carries when these are sent one after another.
std::string OnTheWire(const std::vector<std::string>& payloads) {
  auto [a, b] = Loopback::Pair(0, 3);
  Checked sender(std::move(a));
  for (const std::string& payload : payloads) {
    size_t moved = 0;
    EXPECT_TRUE(sender.TrySend(payload.data(), payload.size(), &moved).ok());
    EXPECT_EQ(moved, payload.size());
  }
  std::string wire(1 << 20, '\0');
  size_t n = 0;
  EXPECT_TRUE(b->TryReceive(wire.data(), wire.size(), &n).ok());
  wire.resize(n);
  return wire;
}

// What is handed out of these bytes, and the status in the end.
std::pair<std::string, Status> HandedOut(const std::string& wire, size_t at_once) {
  auto [a, b] = Loopback::Pair(3, 0);
  size_t moved = 0;
  EXPECT_TRUE(a->TrySend(wire.data(), wire.size(), &moved).ok());
  Checked receiver(std::move(b));
  std::string all;
  std::vector<char> memory(at_once);
  while (true) {
    const Status status = receiver.TryReceive(memory.data(), at_once, &moved);
    all.append(memory.data(), moved);
    if (!status.ok() || moved == 0) return {all, status};
  }
}

TEST(Checked, carries_bytes_in_order_however_they_are_offered_asked_for_and_cut) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const size_t most = seed % 2 == 0 ? 300 : 200000;
    auto [a, b] = Loopback::Pair(0, 1, 1 + random() % most);
    Checked sender(std::make_unique<FaultTransport>(
        std::move(a), Faults{.seed = seed, .stall = 0.2, .most = most}));
    Checked receiver(std::make_unique<FaultTransport>(
        std::move(b), Faults{.seed = seed + 99, .stall = 0.2, .most = most}));
    const std::string sent = Letters(1 + random() % (20 * most), seed);
    ASSERT_NO_FATAL_FAILURE(ExpectToArrive(sent, most, &random, &sender, &receiver));
  }
}

TEST(Checked, carries_a_short_part_and_a_long_one_in_one_frame) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    auto [a, b] = Loopback::Pair(0, 1, 1 << 20);
    Checked sender(std::make_unique<FaultTransport>(
        std::move(a), Faults{.seed = seed,
                             .stall = seed % 2 == 0 ? 0 : 0.3,
                             .most = seed % 2 == 0 ? 1 << 20 : 1 + random() % 300}));
    const std::string first = Letters(1 + random() % 100, seed);
    const std::string second = Letters(random() % 5000, seed + 1);
    const std::string both = first + second;
    const auto part = [](const std::string& text) {
      return iovec{const_cast<char*>(text.data()), text.size()};
    };
    size_t sent = 0;
    ASSERT_TRUE(sender.TrySendAsOne({part(first), part(second)}, &sent).ok());
    while (sent < both.size()) {  // what is left is offered again, in one part
      size_t moved = 0;
      ASSERT_TRUE(sender.TrySend(both.data() + sent, both.size() - sent, &moved).ok());
      sent += moved;
    }
    std::string wire(1 << 20, '\0');
    size_t bytes = 0;
    ASSERT_TRUE(b->TryReceive(wire.data(), wire.size(), &bytes).ok());
    wire.resize(bytes);
    EXPECT_EQ(HandedOut(wire, 10000).first, both);
    if (first.size() <= 64) {
      EXPECT_EQ(bytes, Checked::kHeaderBytes + both.size());
    }
  }
}

// poll(2) tells nothing of what has been read already.
TEST(Checked, says_that_it_holds_the_rest_of_a_frame) {
  auto [a, b] = Loopback::Pair(0, 1, 1 << 20);
  Checked sender(std::move(a)), receiver(std::move(b));
  const std::string sent = Letters(1000, 1);
  size_t moved = 0;
  ASSERT_TRUE(sender.TrySend(sent.data(), sent.size(), &moved).ok());
  EXPECT_FALSE(receiver.holds_bytes());
  std::string got(1000, '\0');
  ASSERT_TRUE(receiver.TryReceive(got.data(), 300, &moved).ok());
  ASSERT_EQ(moved, 300u);
  EXPECT_TRUE(receiver.holds_bytes());
  ASSERT_TRUE(receiver.TryReceive(got.data() + 300, 700, &moved).ok());
  ASSERT_EQ(moved, 700u);
  EXPECT_FALSE(receiver.holds_bytes());
  EXPECT_EQ(got, sent);
}

TEST(Checked, hands_out_nothing_of_a_frame_before_all_of_it_has_come) {
  const std::string payload = Letters(1000, 1);
  const std::string wire = OnTheWire({payload});
  for (const size_t at_once : {10, 1000, 5000}) {
    EXPECT_EQ(HandedOut(wire.substr(0, wire.size() - 1), at_once).first, "");
    EXPECT_EQ(HandedOut(wire, at_once).first, payload);
  }
}

// Remembers what it was told to wake at.
class Sleeper final : public Transport {
 public:
  explicit Sleeper(std::unique_ptr<Transport> inner, size_t* wakes_at)
      : inner_(std::move(inner)), wakes_at_(*wakes_at) {}
  Status TrySend(const void* data, size_t bytes, size_t* moved) override {
    return inner_->TrySend(data, bytes, moved);
  }
  Status TryReceive(void* data, size_t bytes, size_t* moved) override {
    return inner_->TryReceive(data, bytes, moved);
  }
  void WakeAt(size_t bytes) override { wakes_at_ = bytes; }
  int peer() const override { return inner_->peer(); }
  int fd() const override { return inner_->fd(); }

 private:
  const std::unique_ptr<Transport> inner_;
  size_t& wakes_at_;
};

TEST(Checked, wakes_at_the_end_of_the_frame_that_has_begun_and_else_at_the_first_byte) {
  const std::string wire = OnTheWire({Letters(1000, 1)});
  auto [a, b] = Loopback::Pair(3, 0);
  size_t wakes_at = 0, moved = 0;
  Checked receiver(std::make_unique<Sleeper>(std::move(b), &wakes_at));
  receiver.WakeAt(5000);
  EXPECT_EQ(wakes_at, 1u);
  ASSERT_TRUE(a->TrySend(wire.data(), 400, &moved).ok());
  std::string got(5000, '\0');
  ASSERT_TRUE(receiver.TryReceive(got.data(), got.size(), &moved).ok());
  ASSERT_EQ(moved, 0u);
  receiver.WakeAt(5000);
  EXPECT_EQ(wakes_at, wire.size() - 400);
  receiver.WakeAt(1);
  EXPECT_EQ(wakes_at, 1u);
}

TEST(Checked, makes_an_error_that_names_the_connection_of_every_bit_that_changes) {
  const std::vector<std::string> payloads = {Letters(5, 1), Letters(100, 2), Letters(40, 3)};
  const std::string whole = payloads[0] + payloads[1] + payloads[2];
  const std::string wire = OnTheWire(payloads);
  for (size_t bit = 0; bit < 8 * wire.size(); ++bit) {
    std::string damaged = wire;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    for (const size_t at_once : {7, 4096}) {
      const auto [got, status] = HandedOut(damaged, at_once);
      ASSERT_EQ(status.code(), StatusCode::kPeerLost) << "bit " << bit;
      ASSERT_TRUE(IsLossBy(Cause::kDamaged, {3}, status));
      ASSERT_TRUE(Says(status, "the connection with rank 3 changes what it carries"));
      ASSERT_EQ(got, whole.substr(0, got.size())) << "bit " << bit;
      ASSERT_LT(got.size(), whole.size());
    }
  }
}

TEST(Checked, makes_an_error_of_frames_that_are_missing_repeated_or_exchanged) {
  const std::string wire = OnTheWire({Letters(20, 1), Letters(20, 2)});
  const std::string first = wire.substr(0, wire.size() / 2), second = wire.substr(wire.size() / 2);
  EXPECT_TRUE(HandedOut(first + second, 64).second.ok());
  for (const std::string& other : {second, first + first, second + first}) {
    EXPECT_EQ(HandedOut(other, 64).second.code(), StatusCode::kPeerLost);
  }
}

TEST(Checked, stays_broken_once_it_is) {
  std::string wire = OnTheWire({Letters(20, 1), Letters(20, 2)});
  wire[20] = static_cast<char>(wire[20] ^ 1);
  auto [a, b] = Loopback::Pair(3, 0);
  size_t moved = 0;
  ASSERT_TRUE(a->TrySend(wire.data(), wire.size(), &moved).ok());
  Checked receiver(std::move(b));
  char memory[64];
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(receiver.TryReceive(memory, sizeof(memory), &moved).code(), StatusCode::kPeerLost);
    EXPECT_EQ(moved, 0u);
  }
}

TEST(LinkChecks, are_made_between_machines_unless_the_knob_says_otherwise) {
  struct {
    const char* knob;
    const char* mine;
    const char* theirs;
    bool wanted;
  } const rows[] = {
      {"auto", "10.0.0.5", "10.0.0.6", true}, {"auto", "10.0.0.5", "10.0.0.5", false},
      {"auto", "fd00::1", "fd00::2", true},   {"auto", "127.0.0.1", "127.0.0.1", false},
      {"on", "127.0.0.1", "127.0.0.1", true}, {"on", "10.0.0.5", "10.0.0.6", true},
      {"off", "10.0.0.5", "10.0.0.6", false}, {"off", "127.0.0.1", "127.0.0.1", false},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(comm::WantsChecks(row.knob, row.mine, row.theirs), row.wanted)
        << row.knob << " " << row.theirs;
    EXPECT_EQ(comm::WantsChecks(row.knob, row.theirs, row.mine), row.wanted)
        << row.knob << " " << row.theirs;
  }
}

}  // namespace
}  // namespace hvdlite::transport
