// Exchanges over links: several are under way, and each link carries their bytes one after the
// other.
#include "comm/communicator.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "net_world.h"
#include "testing/says.h"

namespace hvdlite::comm::net_testing {
namespace {

using Bytes = std::vector<char>;

// What member `from` sends to member `to` in one exchange.
char Sent(size_t exchange, int from, int to, int64_t at) {
  return static_cast<char>(exchange * 31 + static_cast<size_t>(from * 7 + to * 3) +
                           static_cast<size_t>(at) * 5);
}

// The exchanges of one member, alternately alltoalls and allgathers of blocks of random sizes, with
// the memory that they use.
class BlocksSent {
 public:
  BlocksSent(int me, int members, size_t exchanges, int64_t largest) : me_(me), members_(members) {
    std::mt19937 random(7);  // alike on all members
    std::uniform_int_distribution<int64_t> size(0, largest);
    for (size_t e = 0; e < exchanges; ++e) {
      // A third of all blocks are empty.
      std::vector<int64_t> counts(static_cast<size_t>(Gathers(e) ? members : members * members));
      for (int64_t& count : counts) count = random() % 3 == 0 ? 0 : size(random);
      Add(e, counts);
    }
  }
  // Alltoalls of blocks of these sizes.
  BlocksSent(int me, int members, const std::vector<std::vector<int64_t>>& counts)
      : me_(me), members_(members), gathers_(false) {
    for (size_t e = 0; e < counts.size(); ++e) Add(e, counts[e]);
  }
  bool Gathers(size_t exchange) const { return gathers_ && exchange % 2 == 1; }
  const std::vector<Batch>& batches() const { return batches_; }

  // Whether all that member `from` has sent in this exchange is here.
  bool HasFrom(size_t exchange, int from) const {
    int64_t begin = 0;
    for (int m = 0; m < from; ++m) begin += Count(exchange, m);
    for (int64_t at = 0; at < Count(exchange, from); ++at) {
      const char wanted = Sent(exchange, from, Gathers(exchange) ? 0 : me_, at);
      if (received_[exchange][static_cast<size_t>(begin + at)] != wanted) return false;
    }
    return true;
  }
  bool HasAll() const {
    for (size_t e = 0; e < batches_.size(); ++e) {
      for (int m = 0; m < members_; ++m)
        if (!HasFrom(e, m)) return false;
    }
    return true;
  }

 private:
  // Bytes that come from this member.
  int64_t Count(size_t exchange, int from) const {
    const auto& counts = batches_[exchange].pieces[0].counts;
    return counts[static_cast<size_t>(Gathers(exchange) ? from : from * members_ + me_)];
  }

  void Add(size_t e, const std::vector<int64_t>& counts) {
    Bytes sent;
    int64_t received = 0;
    for (int m = 0; m < members_; ++m) {
      const auto at = [&](int from, int to) {
        return counts[static_cast<size_t>(Gathers(e) ? from : from * members_ + to)];
      };
      received += at(m, me_);
      if (Gathers(e) && m > 0) continue;  // the same for all
      for (int64_t i = 0; i < at(me_, m); ++i) sent.push_back(Sent(e, me_, m, i));
    }
    sent_.push_back(std::move(sent));
    received_.emplace_back(static_cast<size_t>(received), '?');
    Batch batch;
    batch.kind = Gathers(e) ? OpKind::kAllgather : OpKind::kAlltoall;
    Piece piece;
    piece.input = sent_.back().data();
    piece.output = received_.back().data();
    piece.counts = counts;
    batch.pieces.push_back(std::move(piece));
    batches_.push_back(std::move(batch));
  }

  const int me_, members_;
  const bool gathers_ = true;
  std::vector<Bytes> sent_, received_;  // by exchange
  std::vector<Batch> batches_;
};

// Adds one after the other while those before are under way, and turns all until they have ended.
Status DriveAll(Communicator* communicator, Exchanges* exchanges, const BlocksSent& plan,
                uint32_t seed) {
  std::mt19937 random(seed);
  for (const Batch& batch : plan.batches()) {
    exchanges->Add(batch);
    for (size_t turns = random() % 4; turns > 0; --turns) {
      if (exchanges->Advance() == Progress::kFailed) return exchanges->status();
    }
  }
  return Drive(communicator, exchanges);
}

TEST(Exchanges, all_blocks_arrive_whatever_their_sizes_and_however_slow_a_member_is) {
  for (const int members : {1, 2, 3, 4, 11}) {  // 11: more than have turns at a time
    for (uint32_t seed = 0; seed < 4; ++seed) {
      Faults faults;
      faults.seed = seed + 1;
      if (seed > 1) faults = {.seed = seed, .stall = 0.2, .most = 700, .nap = 0.05};
      net::Options options;
      options.piece_bytes = seed % 2 == 0 ? 1 << 10 : 128 << 10;
      NetWorld world(members, options, faults);
      const auto statuses = world.Run([&](int me, Communicator* communicator) {
        const BlocksSent plan(me, members, 9, 5000);
        auto exchanges = communicator->StartExchanges();
        HVDLITE_RETURN_IF_ERROR(DriveAll(communicator, exchanges.get(), plan, seed * 100 + me));
        EXPECT_TRUE(plan.HasAll());
        EXPECT_EQ(exchanges->ended(), plan.batches().size());
        // The links are as before, and the batch after them finds its own bytes.
        float mine = 1, sum = 0;
        Batch after;
        after.kind = OpKind::kAllreduce;
        after.dtype = after.reduce.dtype = DType::kFloat32;
        after.pieces.push_back({&mine, &sum, 1, {}});
        auto work = communicator->Start(after);
        HVDLITE_RETURN_IF_ERROR(Drive(communicator, work.get()));
        EXPECT_EQ(sum, static_cast<float>(members));
        return Status::Ok();
      });
      for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
    }
  }
}

// A member whose first window has no bytes goes on with the next one.
TEST(Exchanges, the_only_block_with_bytes_may_be_for_a_distant_member) {
  constexpr int kMembers = 12;
  NetWorld world(kMembers);
  const auto statuses = world.Run([&](int me, Communicator* communicator) {
    std::vector<int64_t> counts(kMembers * kMembers, 0);
    for (int from = 0; from < kMembers; ++from)
      counts[static_cast<size_t>(from * kMembers + (from + 9) % kMembers)] = 100;
    const BlocksSent plan(me, kMembers, {counts, counts});
    auto exchanges = communicator->StartExchanges();
    HVDLITE_RETURN_IF_ERROR(DriveAll(communicator, exchanges.get(), plan, 1));
    EXPECT_TRUE(plan.HasAll());
    auto alone = communicator->Start(plan.batches()[0]);
    return Drive(communicator, alone.get());
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST(Exchanges, a_late_member_does_not_keep_back_what_the_others_exchange_next) {
  NetWorld world(3);
  std::vector<BlocksSent> plans;
  std::vector<std::unique_ptr<Exchanges>> exchanges;
  for (int m = 0; m < 3; ++m) {
    plans.emplace_back(m, 3, 4, 3000);
    exchanges.push_back(world.member(m)->StartExchanges());
  }
  const auto advance = [&](int member, int turns) {
    for (; turns > 0; --turns)
      ASSERT_NE(exchanges[static_cast<size_t>(member)]->Advance(), Progress::kFailed);
  };
  for (int m = 0; m < 2; ++m)  // and member 2 is late
    for (const Batch& batch : plans[static_cast<size_t>(m)].batches())
      exchanges[static_cast<size_t>(m)]->Add(batch);
  for (int turn = 0; turn < 20; ++turn)
    for (int m = 0; m < 2; ++m) advance(m, 1);
  EXPECT_EQ(exchanges[0]->ended(), 0U);
  for (size_t e = 0; e < 4; ++e) {
    EXPECT_TRUE(plans[0].HasFrom(e, 1)) << e;
    EXPECT_TRUE(plans[1].HasFrom(e, 0)) << e;
  }
  for (const Batch& batch : plans[2].batches()) exchanges[2]->Add(batch);
  for (int turn = 0; turn < 20; ++turn)
    for (int m = 2; m >= 0; --m) advance(m, 1);
  for (size_t m = 0; m < 3; ++m) {
    EXPECT_EQ(exchanges[m]->ended(), 4U);
    EXPECT_EQ(exchanges[m]->Advance(), Progress::kDone);
    EXPECT_TRUE(plans[m].HasAll());
  }
}

TEST(Exchanges, a_dead_member_is_named) {
  NetWorld world(3);
  const auto statuses = world.Run([&](int me, Communicator* communicator) {
    if (me == 2) {
      for (auto& link : world.links()[2]) link.reset();
      return Status::Ok();
    }
    const BlocksSent plan(me, 3, 3, 3000);
    auto exchanges = communicator->StartExchanges();
    return DriveAll(communicator, exchanges.get(), plan, 1);
  });
  for (int m = 0; m < 2; ++m) {
    EXPECT_TRUE(IsLossOf(2, statuses[static_cast<size_t>(m)]));
  }
}

}  // namespace
}  // namespace hvdlite::comm::net_testing
