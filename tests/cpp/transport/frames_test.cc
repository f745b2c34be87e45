#include "transport/frames.h"

#include <gtest/gtest.h>

#include <random>

#include "testing/fault_transport.h"
#include "testing/loopback.h"
#include "testing/says.h"

namespace hvdlite::transport {
namespace {

using testing::Faults;
using testing::FaultTransport;
using testing::Loopback;

TEST(Frames, arrive_whole_and_in_order_however_the_bytes_are_cut) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    auto [a, b] = Loopback::Pair(0, 1, 1 + random() % 5000);
    FaultTransport sender_end(std::move(a),
                              {.seed = seed, .stall = 0.2, .most = 1 + random() % 3000});
    FaultTransport receiver_end(std::move(b),
                                {.seed = seed + 99, .stall = 0.2, .most = 1 + random() % 3000});
    FrameChannel sender(&sender_end), receiver(&receiver_end);
    std::vector<std::string> sent;
    size_t received = 0;
    for (int turn = 0; received < 200; ++turn) {
      ASSERT_LT(turn, 10000000);
      bool moved = false;
      if (sent.size() < 200 && random() % 4 == 0) {
        sent.push_back(std::string(random() % 10 == 0 ? random() % 20000 : random() % 60,
                                   static_cast<char>(random())));
        sender.Send(sent.back());
      }
      ASSERT_TRUE(sender.PumpOut(&moved).ok());
      std::string_view frame;
      ASSERT_TRUE(receiver.Next(&frame, &moved).ok());
      if (frame.data() == nullptr) continue;
      ASSERT_LT(received, sent.size());
      ASSERT_EQ(frame, sent[received++]);
    }
    EXPECT_FALSE(sender.wants_to_send());
  }
}

TEST(Frames, a_payload_in_two_parts_is_one_frame_and_keeps_its_turn) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    auto [a, b] = Loopback::Pair(0, 1, 1 + random() % 500);
    FaultTransport end(std::move(a), {.seed = seed, .stall = 0.2, .most = 1 + random() % 300});
    FrameChannel sender(&end), receiver(b.get());
    std::vector<std::string> sent;
    for (int i = 0; i < 20; ++i) {
      const std::string head(1 + random() % 40, 'h');
      const std::string body(random() % 600, static_cast<char>('a' + i));
      sent.push_back(head + body);
      if (random() % 3 == 0) {
        sender.Send(sent.back());
      } else {
        ASSERT_TRUE(sender.SendNow(head, body).ok());
      }
    }
    for (size_t received = 0; received < sent.size();) {
      bool moved = false;
      ASSERT_TRUE(sender.PumpOut(&moved).ok());
      std::string_view frame;
      ASSERT_TRUE(receiver.Next(&frame, &moved).ok());
      if (frame.data() == nullptr) continue;
      ASSERT_EQ(frame, sent[received++]);
    }
  }
}

TEST(Frames, an_empty_frame_is_a_frame) {
  auto [a, b] = Loopback::Pair(0, 1);
  FrameChannel sender(a.get()), receiver(b.get());
  bool moved = false;
  sender.Send("");
  ASSERT_TRUE(sender.PumpOut(&moved).ok());
  std::string_view frame;
  ASSERT_TRUE(receiver.Next(&frame, &moved).ok());
  EXPECT_NE(frame.data(), nullptr);
  EXPECT_TRUE(frame.empty());
  ASSERT_TRUE(receiver.Next(&frame, &moved).ok());
  EXPECT_EQ(frame.data(), nullptr);
}

TEST(Frames, a_frame_out_of_sequence_or_too_long_breaks_the_channel) {
  struct Header {
    uint32_t length, sequence;
  };
  for (const Header header :
       {Header{4, 1}, Header{FrameChannel::kMaxFrame + 1, 0}, Header{UINT32_MAX, 0}}) {
    auto [a, b] = Loopback::Pair(5, 1);
    size_t moved_bytes = 0;
    ASSERT_TRUE(a->TrySend(&header, sizeof(header), &moved_bytes).ok());
    FrameChannel receiver(b.get());
    std::string_view frame;
    bool moved = false;
    const Status status = receiver.Next(&frame, &moved);
    EXPECT_TRUE(FailsWith(status, StatusCode::kInternal, "rank 5"));
  }
}

TEST(Frames, what_arrived_before_the_end_is_still_handed_out) {
  auto [a, b] = Loopback::Pair(0, 1);
  FrameChannel sender(a.get());
  bool moved = false;
  sender.Send("last words");
  ASSERT_TRUE(sender.PumpOut(&moved).ok());
  FaultTransport end(std::move(b), {.lost_after = 18});
  FrameChannel receiver(&end);
  std::string_view frame;
  ASSERT_TRUE(receiver.Next(&frame, &moved).ok());
  EXPECT_EQ(frame, "last words");
  EXPECT_EQ(receiver.Next(&frame, &moved).code(), StatusCode::kPeerLost);
}

}  // namespace
}  // namespace hvdlite::transport
