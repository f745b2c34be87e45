#include "engine/meeting.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <string>
#include <vector>

namespace hvdlite::engine {
namespace {

using End = Meeting::End;

class Visitor {
 public:
  explicit Visitor(int me) : meeting(me) {}

  void Offer(uint64_t slot, std::vector<float> tensor) {
    tensor_ = std::move(tensor);
    sum = std::vector<float>(tensor_.size(), -1);
    kernels::ReduceSpec add;
    meeting.Offer({{slot, 7}, add, tensor_.data(), sum.data(), tensor_.size() * sizeof(float)});
  }
  bool Hear(const Visitor& other, uint64_t slot, Nanos now = 0) {
    const auto* bytes = reinterpret_cast<const char*>(other.tensor_.data());
    return meeting.Heard({slot, 7}, {bytes, other.tensor_.size() * sizeof(float)}, now);
  }

  Meeting meeting;
  std::vector<float> sum;

 private:
  std::vector<float> tensor_;
};

TEST(Meeting, two_offers_of_the_same_are_performed_whoever_comes_first) {
  for (const bool first_hears_early : {false, true}) {
    Visitor a(0), b(1);
    a.Offer(3, {1, 2});
    if (first_hears_early) {
      b.Offer(3, {10, 20});
      EXPECT_TRUE(b.Hear(a, 3));
    } else {
      EXPECT_TRUE(b.Hear(a, 3));
      b.Offer(3, {10, 20});
    }
    EXPECT_EQ(a.meeting.end(), End::kOpen);
    EXPECT_TRUE(a.Hear(b, 3));
    EXPECT_EQ(a.meeting.TakeEnd(), End::kPerformed);
    EXPECT_EQ(b.meeting.TakeEnd(), End::kPerformed);
    EXPECT_EQ(a.sum, (std::vector<float>{11, 22}));
    EXPECT_EQ(b.sum, a.sum);
  }
}

TEST(Meeting, offers_that_differ_are_void_for_both) {
  struct {
    uint64_t slot;
    std::vector<float> tensor;
  } const others[] = {{4, {10, 20}}, {3, {10}}, {3, {10, 20, 30}}};
  for (const auto& other : others) {
    Visitor a(0), b(1);
    a.Offer(3, {1, 2});
    b.Offer(other.slot, other.tensor);
    EXPECT_TRUE(a.Hear(b, other.slot));
    EXPECT_TRUE(b.Hear(a, 3));
    EXPECT_EQ(a.meeting.TakeEnd(), End::kVoid);
    EXPECT_EQ(b.meeting.TakeEnd(), End::kVoid);
    EXPECT_EQ(a.sum, (std::vector<float>{-1, -1}));
  }
}

TEST(Meeting, a_decline_makes_the_round_void_and_the_next_one_counts) {
  Visitor a(0), b(1);
  a.Offer(3, {1});
  EXPECT_TRUE(b.Hear(a, 3));
  b.meeting.Decline();
  EXPECT_EQ(b.meeting.end(), End::kNoOffer);
  b.Offer(3, {10});  // of the next round
  EXPECT_TRUE(a.meeting.HeardDecline());
  EXPECT_EQ(a.meeting.end(), End::kVoid);
  EXPECT_FALSE(a.meeting.MayOffer());
  EXPECT_TRUE(a.Hear(b, 3));  // before the end of the last round was taken
  EXPECT_EQ(a.meeting.TakeEnd(), End::kVoid);
  a.Offer(3, {2});
  EXPECT_EQ(a.meeting.TakeEnd(), End::kPerformed);
  EXPECT_EQ(a.sum, std::vector<float>{12});
}

TEST(Meeting, declines_for_a_member_that_is_busy_or_late_and_never_for_one_that_has_come) {
  Visitor a(0), b(1);
  EXPECT_FALSE(b.meeting.MustDecline(true, 0));
  a.Offer(3, {1});
  EXPECT_TRUE(b.Hear(a, 3, 5 * kSecond));
  EXPECT_FALSE(b.meeting.MustDecline(false, 5 * kSecond));
  EXPECT_TRUE(b.meeting.MustDecline(true, 5 * kSecond));
  EXPECT_TRUE(b.meeting.MustDecline(false, 5 * kSecond + Meeting::kPatience));
  EXPECT_FALSE(a.meeting.MustDecline(true, 9 * kSecond));
}

TEST(Meeting, an_abandoned_offer_is_kept_and_its_result_is_written_nowhere) {
  for (const bool ended_before : {false, true}) {
    Visitor a(0), b(1);
    a.Offer(3, {1});
    b.Offer(3, {10});
    if (ended_before) {
      EXPECT_TRUE(a.Hear(b, 3));
    }
    a.meeting.Abandon();
    a.sum = {-1};
    EXPECT_FALSE(!ended_before && a.meeting.MayOffer());
    if (!ended_before) {
      EXPECT_TRUE(a.Hear(b, 3));
    }
    EXPECT_EQ(a.sum, std::vector<float>{-1});
    EXPECT_TRUE(b.Hear(a, 3));
    EXPECT_EQ(b.meeting.TakeEnd(), End::kPerformed);
    EXPECT_TRUE(a.meeting.MayOffer());
  }
}

TEST(Meeting, refuses_what_no_member_sends) {
  Visitor a(0), b(1);
  EXPECT_FALSE(a.meeting.HeardDecline());
  b.Offer(3, {1});
  EXPECT_TRUE(a.Hear(b, 3));
  EXPECT_FALSE(a.Hear(b, 3)) << "two in one round";
  EXPECT_FALSE(a.meeting.HeardDecline());
  Visitor c(0), large(1);
  large.Offer(3, std::vector<float>(Meeting::kMostBytes / sizeof(float) + 1));
  EXPECT_FALSE(c.Hear(large, 3));
}

TEST(Meeting, rests_longer_and_longer_while_all_is_in_vain) {
  Visitor a(0);
  std::vector<int> rests;
  for (int round = 0; round < 16; ++round) {
    int rest = 0;
    for (; !a.meeting.MayOffer(); ++rest) {
    }
    rests.push_back(rest);
    a.Offer(3, {1});
    EXPECT_TRUE(a.meeting.HeardDecline());
    EXPECT_EQ(a.meeting.TakeEnd(), End::kVoid);
  }
  EXPECT_EQ(rests, (std::vector<int>{0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 64, 64, 64, 64, 64}));
}

// Both members say anything at any time, and what they say takes its time. Afterwards they agree
// about every round.
TEST(Meeting, both_members_know_the_same_about_every_round) {
  struct Message {
    bool offer;
    uint64_t slot;
    float value;
  };
  int all = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    Meeting members[2] = {Meeting(0), Meeting(1)};
    std::deque<Message> under_way[2];  // to that member
    float input[2] = {}, output[2] = {};
    uint64_t offered[2] = {};
    int performed[2] = {};
    double total[2] = {};
    for (int turn = 0; turn < 2000; ++turn) {
      const size_t me = random() % 2;
      Meeting& meeting = members[me];
      switch (random() % 4) {
        case 0:
          if (turn >= 1900 || !meeting.MayOffer()) break;
          input[me] = static_cast<float>(random() % 1000);
          offered[me] = random() % 2;
          under_way[1 - me].push_back({true, offered[me], input[me]});
          meeting.Offer({{offered[me], 0}, {}, &input[me], &output[me], sizeof(float)});
          break;
        case 1:
          if (!meeting.MustDecline(turn >= 1900 || random() % 4 == 0, 0)) break;
          under_way[1 - me].push_back({false, 0, 0});
          meeting.Decline();
          break;
        case 2:
          if (under_way[me].empty()) break;
          if (const Message& heard = under_way[me].front(); heard.offer) {
            const auto* bytes = reinterpret_cast<const char*>(&heard.value);
            ASSERT_TRUE(meeting.Heard({heard.slot, 0}, {bytes, sizeof(float)}, 0));
          } else {
            ASSERT_TRUE(meeting.HeardDecline());
          }
          under_way[me].pop_front();
          break;
        default:
          if (meeting.end() == End::kNoOffer || meeting.end() == End::kOpen) break;
          if (meeting.TakeEnd() != End::kPerformed) break;
          ++performed[me];
          total[me] += output[me] * (1 + performed[me]);
      }
    }
    for (size_t me : {0, 1}) {
      if (members[me].end() != End::kPerformed) continue;
      ++performed[me];
      total[me] += output[me] * (1 + performed[me]);
    }
    EXPECT_TRUE(under_way[0].empty() && under_way[1].empty());
    EXPECT_EQ(performed[0], performed[1]);
    EXPECT_EQ(total[0], total[1]);
    all += performed[0];
  }
  EXPECT_GT(all, 1000);
}

}  // namespace
}  // namespace hvdlite::engine
