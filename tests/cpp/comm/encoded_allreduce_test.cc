#include "comm/compressed/encoded_allreduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "comm/compressed/encoded_plan.h"
#include "encoded_world.h"
#include "kernels/codec.h"

namespace hvdlite::comm::net_testing {
namespace {

using Floats = std::vector<float>;

struct Kind {
  const char* name;
  std::unique_ptr<EncodedWorld> (*make)();
};

const Kind kWorlds[] = {
    {"alone", [] { return std::unique_ptr<EncodedWorld>(new OverNothing()); }},
    {"shm2", [] { return std::unique_ptr<EncodedWorld>(new OverShm(2)); }},
    {"shm3", [] { return std::unique_ptr<EncodedWorld>(new OverShm(3)); }},
    {"net2", [] { return std::unique_ptr<EncodedWorld>(new OverNet(2)); }},
    {"net4", [] { return std::unique_ptr<EncodedWorld>(new OverNet(4)); }},
    {"hosts2x2", [] { return std::unique_ptr<EncodedWorld>(new OverHosts({0, 0, 1, 1})); }},
    {"hosts3and1", [] { return std::unique_ptr<EncodedWorld>(new OverHosts({0, 0, 0, 1})); }},
    {"hosts3x2", [] { return std::unique_ptr<EncodedWorld>(new OverHosts({0, 0, 1, 1, 2, 2})); }},
};

constexpr CodecSpec kInt8{Codec::kInt8, 0};
constexpr CodecSpec kSpecs[] = {kInt8,
                                {Codec::kFp8, 0},
                                {Codec::kSign, 0},
                                {Codec::kTernary, 2.5},
                                {Codec::kThreshold, 0.5},
                                {Codec::kQsgd, 7}};

// The tensors of all members, and what becomes of them.
struct Job {
  struct Tensor {
    Floats input, output, residual;
  };
  std::vector<std::vector<Tensor>> members;
  bool in_place = false;      // results replace inputs, and outputs are not used
  std::vector<size_t> whole;  // tensors that are not encoded

  Job(int size, const std::vector<int64_t>& counts) : members(static_cast<size_t>(size)) {
    for (auto& mine : members) {
      for (const int64_t count : counts) {
        const auto n = static_cast<size_t>(count);
        mine.push_back({Floats(n), Floats(n, 77), Floats(n)});
      }
    }
  }
  void Draw(unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (auto& mine : members) {
      for (Tensor& tensor : mine) {
        for (float& value : tensor.input) value = normal(random);
      }
    }
  }

  // The tensors `which` in one batch.
  void Allreduce(EncodedWorld* world, const CodecSpec& codec, const std::vector<size_t>& which,
                 uint64_t step, bool feedback = true, kernels::ReduceSpec reduce = {}) {
    std::vector<Batch> batches(members.size());
    for (size_t m = 0; m < members.size(); ++m) {
      batches[m].kind = OpKind::kAllreduce;
      batches[m].dtype = reduce.dtype = DType::kFloat32;
      batches[m].reduce = reduce;
      batches[m].codec = codec;
      for (const size_t t : which) {
        Tensor& tensor = members[m][t];
        Piece piece;
        piece.input = tensor.input.data();
        piece.output = in_place ? tensor.input.data() : tensor.output.data();
        piece.count = static_cast<int64_t>(tensor.input.size());
        if (feedback) piece.coding.residual = tensor.residual.data();
        piece.coding.tensor = 1000 + 17 * t;
        piece.coding.draw = kernels::MixKey(step, t);
        piece.whole = std::find(whole.begin(), whole.end(), t) != whole.end();
        batches[m].pieces.push_back(piece);
      }
    }
    world->Allreduce([&](int m) -> const Batch& { return batches[static_cast<size_t>(m)]; });
  }

  void ExpectSameBits() const {
    for (const auto& mine : members) {
      for (size_t t = 0; t < mine.size(); ++t) {
        ASSERT_EQ(std::memcmp(mine[t].output.data(), members[0][t].output.data(),
                              mine[t].output.size() * sizeof(float)),
                  0)
            << "tensor " << t;
      }
    }
  }
};

// Empty, tiny, one block and a bit, and large enough to be cut into stretches.
const std::vector<int64_t> kCounts = {3000, 1, 0, 70001, 257, 1024, 40};

std::vector<size_t> All() {
  std::vector<size_t> all(kCounts.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  return all;
}

class EncodedAllreduceOver : public ::testing::TestWithParam<Kind> {
 protected:
  EncodedAllreduceOver() : world_(GetParam().make()) {}
  int size() const { return world_->size(); }
  const std::unique_ptr<EncodedWorld> world_;
};

INSTANTIATE_TEST_SUITE_P(Worlds, EncodedAllreduceOver, ::testing::ValuesIn(kWorlds),
                         [](const auto& kind) { return std::string(kind.param.name); });

// Error feedback loses nothing: sum_t result_t + sum_k residual_k,T == sum_t sum_k g_k,t.
TEST_P(EncodedAllreduceOver, AllMembersHaveTheSameBitsAndNothingIsLost) {
  for (const CodecSpec& codec : kSpecs) {
    Job job(size(), kCounts);
    std::vector<std::vector<double>> got, wanted;
    for (const int64_t count : kCounts) {
      got.emplace_back(static_cast<size_t>(count));
      wanted.emplace_back(static_cast<size_t>(count));
    }
    constexpr unsigned kSteps = 4;
    for (unsigned step = 0; step < kSteps; ++step) {
      job.Draw(step);
      job.Allreduce(world_.get(), codec, All(), step);
      job.ExpectSameBits();
      for (size_t t = 0; t < kCounts.size(); ++t) {
        for (size_t i = 0; i < got[t].size(); ++i) {
          got[t][i] += job.members[0][t].output[i];
          for (const auto& mine : job.members) wanted[t][i] += mine[t].input[i];
        }
      }
    }
    for (size_t t = 0; t < kCounts.size(); ++t) {
      for (size_t i = 0; i < got[t].size(); ++i) {
        double kept = 0;
        for (const auto& mine : job.members) kept += mine[t].residual[i];
        ASSERT_NEAR(got[t][i] + kept, wanted[t][i], 2e-4)
            << ToString(codec) << " tensor " << t << " element " << i;
      }
    }
  }
}

TEST_P(EncodedAllreduceOver, TheSumIsNearAndScaledAsAsked) {
  Job job(size(), kCounts);
  job.Draw(5);
  kernels::ReduceSpec average;
  average.prescale = 0.5;
  average.divisor = size();
  average.postscale = 4;
  job.Allreduce(world_.get(), kInt8, All(), 0, /*feedback=*/false, average);
  job.ExpectSameBits();
  for (size_t t = 0; t < kCounts.size(); ++t) {
    for (size_t i = 0; i < job.members[0][t].output.size(); ++i) {
      double sum = 0;
      for (const auto& mine : job.members) sum += mine[t].input[i] * 0.5;
      // Each contribution and the sum are off by half a step of 1/127 of at most 6 sigma.
      const double bound = (size() * 3.0 + 3 * std::sqrt(size())) / 127 * 4 / size();
      ASSERT_NEAR(job.members[0][t].output[i], sum / size() * 4, bound) << t << " " << i;
    }
    for (const float value : job.members[0][t].residual) ASSERT_EQ(value, 0);
  }
}

TEST_P(EncodedAllreduceOver, TheBitsDoNotDependOnTheBatch) {
  for (const CodecSpec& codec : kSpecs) {
    Job together(size(), kCounts), apart(size(), kCounts);
    for (unsigned step = 0; step < 3; ++step) {
      together.Draw(step);
      apart.Draw(step);
      together.Allreduce(world_.get(), codec, All(), step);
      apart.Allreduce(world_.get(), codec, {3, 1}, step);
      apart.Allreduce(world_.get(), codec, {6, 5, 4, 2}, step);
      apart.Allreduce(world_.get(), codec, {0}, step);
    }
    for (int m = 0; m < size(); ++m) {
      for (size_t t = 0; t < kCounts.size(); ++t) {
        const auto& one = together.members[static_cast<size_t>(m)][t];
        const auto& other = apart.members[static_cast<size_t>(m)][t];
        ASSERT_EQ(one.output, other.output) << ToString(codec) << " " << t;
        ASSERT_EQ(one.residual, other.residual) << ToString(codec) << " " << t;
      }
    }
  }
}

// A block with an infinite number: a member keeps its residual to the bit where its own block is
// not finite. Where only others' are, it takes back what it has kept, up to a rounding.
TEST_P(EncodedAllreduceOver, WholeTensorsTravelAsInAnyAllreduceAndChangeNoOthers) {
  Job encoded(size(), kCounts), mixed(size(), kCounts);
  mixed.whole = {1, 3, 6};
  for (unsigned step = 0; step < 2; ++step) {
    encoded.Draw(step);
    mixed.Draw(step);
    encoded.Allreduce(world_.get(), kInt8, All(), step);
    mixed.Allreduce(world_.get(), kInt8, All(), step);
    mixed.ExpectSameBits();
    for (size_t t = 0; t < kCounts.size(); ++t) {
      const bool is_whole = std::count(mixed.whole.begin(), mixed.whole.end(), t) > 0;
      for (size_t m = 0; m < mixed.members.size(); ++m) {
        const auto& mine = mixed.members[m][t];
        if (is_whole) {
          ASSERT_EQ(mine.residual, Floats(mine.residual.size())) << t;
        } else {
          ASSERT_EQ(mine.output, encoded.members[m][t].output) << t;
          ASSERT_EQ(mine.residual, encoded.members[m][t].residual) << t;
        }
      }
      for (size_t i = 0; is_whole && i < mixed.members[0][t].output.size(); ++i) {
        float sum = 0;
        for (const auto& mine : mixed.members) sum += mine[t].input[i];
        ASSERT_NEAR(mixed.members[0][t].output[i], sum, 1e-5) << t;
      }
    }
  }
}

TEST_P(EncodedAllreduceOver, ABlockThatIsNotFiniteIsNanEverywhereAndDoesNotEnterAnyResidual) {
  for (const bool in_place : {false, true}) {
    for (const CodecSpec& codec : kSpecs) {
      Job job(size(), kCounts);
      job.Draw(1);
      job.Allreduce(world_.get(), codec, All(), 0);
      const auto before = job.members;
      job.Draw(2);
      const size_t place = 50000;
      job.members.back()[3].input[place] = std::numeric_limits<float>::infinity();
      job.in_place = in_place;
      job.Allreduce(world_.get(), codec, All(), 1);
      const auto output = [&](size_t m) -> const Floats& {
        return in_place ? job.members[m][3].input : job.members[m][3].output;
      };
      int nans = 0;
      for (size_t m = 0; m < job.members.size(); ++m) {
        const bool own = m + 1 == job.members.size();
        for (size_t i = 0; i < output(m).size(); ++i) {
          const bool nan = std::isnan(output(m)[i]);
          nans += nan ? 1 : 0;
          ASSERT_EQ(nan, std::isnan(output(0)[i]));
          ASSERT_TRUE(std::isfinite(job.members[m][3].residual[i]));
          if (nan) {
            // Numbers are below 10, and in a host's sum below 20.
            ASSERT_NEAR(job.members[m][3].residual[i], before[m][3].residual[i], own ? 0 : 1e-5)
                << ToString(codec) << " member " << m << " element " << i;
          }
        }
        ASSERT_TRUE(std::isnan(output(m)[place])) << ToString(codec);
      }
      EXPECT_LE(nans, size() * kernels::BlockOf(codec)) << ToString(codec);
    }
  }
}

TEST_P(EncodedAllreduceOver, InPlaceGivesTheSame) {
  Job apart(size(), kCounts), in_place(size(), kCounts);
  apart.Draw(3);
  in_place.Draw(3);
  apart.Allreduce(world_.get(), kInt8, All(), 0);
  in_place.in_place = true;
  in_place.Allreduce(world_.get(), kInt8, All(), 0);
  for (size_t m = 0; m < in_place.members.size(); ++m) {
    for (size_t t = 0; t < kCounts.size(); ++t) {
      ASSERT_EQ(in_place.members[m][t].input, apart.members[m][t].output);
      ASSERT_EQ(in_place.members[m][t].residual, apart.members[m][t].residual);
    }
  }
}

TEST_P(EncodedAllreduceOver, BytesOnTheWayAreCounted) {
  struct Row {
    CodecSpec codec;
    double at_least;
  };
  for (const Row& row :
       {Row{kInt8, 3.8}, Row{{Codec::kSign, 0}, 27}, Row{{Codec::kTernary, 2.5}, 14}}) {
    Job job(size(), {300000});
    job.Draw(1);
    const uint64_t before = world_->carrier_counts().before_encoding();
    const uint64_t after = world_->carrier_counts().after_encoding();
    job.Allreduce(world_.get(), row.codec, {0}, 0);
    const auto raw = static_cast<double>(world_->carrier_counts().before_encoding() - before);
    const auto sent = static_cast<double>(world_->carrier_counts().after_encoding() - after);
    if (size() == 1) {
      EXPECT_EQ(raw + sent, 0);
      continue;
    }
    EXPECT_GE(raw, 300000 * 4.0);
    EXPECT_GE(raw / sent, row.at_least) << ToString(row.codec);
  }
  const auto owners = world_->carrier_counts().By(Carrier::kEncodedOwners, OpKind::kAllreduce);
  const auto gather = world_->carrier_counts().By(Carrier::kEncodedGather, OpKind::kAllreduce);
  EXPECT_GT(owners + gather, 0u);
}

// While the bytes of one part are under way, members work on others.
TEST(EncodedAllreduce, ALargeBatchGoesInPartsAndHasTheSameBits) {
  OverNet world(3);
  const auto exchanges = [&](OpKind kind) {
    uint64_t count = 0;
    for (int c = 0; c < kCarrierCount; ++c)
      count += world.carrier_counts().By(static_cast<Carrier>(c), kind);
    return count;
  };
  // Two tensors, two tensors, and a rest that is gathered.
  const std::vector<int64_t> counts = {1500000, 700000, 300, 2500000, 5};
  Job together(3, counts), apart(3, counts);
  for (unsigned step = 0; step < 2; ++step) {
    together.Draw(step);
    apart.Draw(step);
    const uint64_t alltoalls = exchanges(OpKind::kAlltoall);
    const uint64_t allgathers = exchanges(OpKind::kAllgather);
    together.Allreduce(&world, kInt8, {0, 1, 2, 3, 4}, step);
    EXPECT_EQ(exchanges(OpKind::kAlltoall) - alltoalls, 3u * 3);
    EXPECT_EQ(exchanges(OpKind::kAllgather) - allgathers, 3u * 2);
    together.ExpectSameBits();
    for (size_t t = 0; t < counts.size(); ++t) apart.Allreduce(&world, kInt8, {t}, step);
  }
  for (size_t m = 0; m < 3; ++m) {
    for (size_t t = 0; t < counts.size(); ++t) {
      ASSERT_EQ(together.members[m][t].output, apart.members[m][t].output) << t;
      ASSERT_EQ(together.members[m][t].residual, apart.members[m][t].residual) << t;
    }
  }
}

// An owner adds its own contribution as it is, and its residual has what the code of the sum loses.
TEST(EncodedAllreduce, WhatAnOwnerContributesToItsShareIsExact) {
  OverNet world(3);
  const CodecSpec sign{Codec::kSign, 0};
  constexpr int64_t kCount = 20000;
  Job job(3, {kCount});
  job.Draw(4);
  const auto coded = [&](const Floats& values) {
    std::vector<char> bytes(static_cast<size_t>(kernels::EncodedBytes(sign, kCount)));
    Floats decoded(values.size());
    kernels::Encode(sign, {values.data(), nullptr, 1}, kCount, {}, bytes.data());
    kernels::Decode(sign, bytes.data(), kCount, decoded.data());
    return decoded;
  };
  Floats sum(kCount);
  std::vector<int> owner(kCount);
  for (int m = 0; m < 3; ++m) {
    const Floats& mine = job.members[static_cast<size_t>(m)][0].input;
    const Floats travelled = coded(mine);
    const compressed::Share share = compressed::ShareOf(kCount, kernels::BlockOf(sign), 3, m, 1000);
    for (int64_t i = 0; i < kCount; ++i) {
      const bool own = share.begin <= i && i < share.end;
      if (own) owner[static_cast<size_t>(i)] = m;
      sum[static_cast<size_t>(i)] +=
          own ? mine[static_cast<size_t>(i)] : travelled[static_cast<size_t>(i)];
    }
  }
  job.Allreduce(&world, sign, {0}, 0);
  const Floats result = coded(sum);
  EXPECT_EQ(job.members[0][0].output, result);
  for (size_t i = 0; i < sum.size(); ++i) {
    const auto& residual = job.members[static_cast<size_t>(owner[i])][0].residual;
    ASSERT_EQ(residual[i], sum[i] - result[i]) << i;
  }
}

// The mean of what many draws give is the sum.
TEST(EncodedAllreduce, StochasticSumsAreUnbiasedAmongOwners) {
  OverNet world(3);
  constexpr size_t kCount = 5000;  // too many to be gathered
  Job job(3, {kCount});
  job.Draw(9);
  constexpr int kDraws = 400;
  std::vector<double> mean(kCount), squares(kCount);
  for (uint64_t draw = 0; draw < kDraws; ++draw) {
    job.Allreduce(&world, {Codec::kQsgd, 4}, {0}, draw, /*feedback=*/false);
    for (size_t i = 0; i < mean.size(); ++i) {
      const double value = job.members[0][0].output[i];
      mean[i] += value / kDraws;
      squares[i] += value * value / kDraws;
    }
  }
  ASSERT_GT(world.carrier_counts().By(Carrier::kEncodedOwners, OpKind::kAllreduce), 0u);
  double off = 0;  // in sigmas, squared; its mean is 1
  for (size_t i = 0; i < mean.size(); ++i) {
    double sum = 0;
    for (const auto& mine : job.members) sum += mine[0].input[i];
    const double variance = (squares[i] - mean[i] * mean[i]) / kDraws;
    off += std::pow(mean[i] - sum, 2) / variance / static_cast<double>(mean.size());
  }
  EXPECT_NEAR(off, 1, 0.15);
}

}  // namespace
}  // namespace hvdlite::comm::net_testing
