#include "comm/compressed/sparse_allreduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "encoded_world.h"
#include "kernels/select.h"
#include "testing/normal.h"

namespace hvdlite::comm::net_testing {
namespace {

using Floats = std::vector<float>;

struct SparseKind {
  const char* name;
  std::unique_ptr<EncodedWorld> (*make)();
};

const SparseKind kSparseWorlds[] = {
    {"alone", [] { return std::unique_ptr<EncodedWorld>(new OverNothing()); }},
    {"shm3", [] { return std::unique_ptr<EncodedWorld>(new OverShm(3)); }},
    {"net2", [] { return std::unique_ptr<EncodedWorld>(new OverNet(2)); }},
    {"net4", [] { return std::unique_ptr<EncodedWorld>(new OverNet(4)); }},
    {"hosts2x2", [] { return std::unique_ptr<EncodedWorld>(new OverHosts({0, 0, 1, 1})); }},
    {"hosts3and1", [] { return std::unique_ptr<EncodedWorld>(new OverHosts({0, 0, 0, 1})); }},
};

// A tensor of one member, before and after an operation.
struct SparseTensor {
  Floats input, output, residual, velocity, new_residual, new_velocity;
  int64_t taken;
  kernels::Selection memory = {};

  SparseTensor(size_t count, unsigned seed)
      : input(testing::Normal(count, seed)),
        output(count, 77),
        residual(testing::Normal(count, seed + 1)),
        velocity(testing::Normal(count, seed + 2)),
        new_residual(count, 77),
        new_velocity(count, 77),
        taken(std::max<int64_t>(1, static_cast<int64_t>(count) / 100)) {}

  // The memory of the next operation.
  const kernels::Selection* Memory() {
    memory.residual = residual.data();
    memory.velocity = velocity.data();
    memory.new_residual = new_residual.data();
    memory.new_velocity = new_velocity.data();
    memory.momentum = 0.9F;
    memory.masking = true;
    return &memory;
  }
};

// The tensors of all members.
class SparseJob {
 public:
  SparseJob(int size, const std::vector<size_t>& counts) {
    for (int m = 0; m < size; ++m) {
      members.emplace_back();
      for (size_t t = 0; t < counts.size(); ++t)
        members.back().emplace_back(counts[t], static_cast<unsigned>(100 * m + 10 * t));
    }
  }

  // `joined`: a member without tensors of its own.
  void Allreduce(EncodedWorld* world, const kernels::ReduceSpec& reduce = {}, bool in_place = false,
                 int joined = -1) {
    std::vector<Batch> batches(members.size());
    for (size_t m = 0; m < members.size(); ++m) {
      batches[m].kind = OpKind::kAllreduce;
      batches[m].dtype = DType::kFloat32;
      batches[m].reduce = reduce;
      batches[m].sparse = true;
      for (SparseTensor& tensor : members[m]) {
        Piece piece;
        piece.input = tensor.input.data();
        piece.output = in_place ? tensor.input.data() : tensor.output.data();
        piece.count = static_cast<int64_t>(tensor.input.size());
        piece.taken = tensor.taken;
        piece.whole = tensor.taken == 0;
        if (static_cast<int>(m) != joined) piece.memory = tensor.Memory();
        batches[m].pieces.push_back(piece);
      }
    }
    world->Allreduce([&](int m) -> const Batch& { return batches[static_cast<size_t>(m)]; });
  }

  std::vector<std::vector<SparseTensor>> members;
};

// The definition: what all members select is added in their order. Their new memories, too.
struct Expected {
  Floats sum;
  std::vector<Floats> residuals, velocities;
};
Expected ExpectedOf(SparseJob* job, size_t t, float factor, int joined = -1) {
  Expected expected;
  const size_t count = job->members[0][t].input.size();
  expected.sum.resize(count);
  for (size_t m = 0; m < job->members.size(); ++m) {
    SparseTensor& tensor = job->members[m][t];
    Floats residual(count, 77), velocity(count, 77), values(static_cast<size_t>(tensor.taken));
    std::vector<int32_t> positions(values.size());
    if (static_cast<int>(m) != joined) {
      kernels::Selection selection = *tensor.Memory();
      selection.count = static_cast<int64_t>(count);
      selection.gradient = tensor.input.data();
      selection.taken = tensor.taken;
      selection.new_residual = residual.data();
      selection.new_velocity = velocity.data();
      selection.values = values.data();
      selection.positions = positions.data();
      kernels::Select(selection);
      for (size_t i = 0; i < values.size(); ++i)
        expected.sum[static_cast<size_t>(positions[i])] += values[i];
    }
    expected.residuals.push_back(residual);
    expected.velocities.push_back(velocity);
  }
  for (float& value : expected.sum) value *= factor;
  return expected;
}

// Tiny, one stretch and a bit, and several stretches.
const std::vector<size_t> kSparseCounts = {3000, 1, 70001, 257, 300000, 40};

class SparseAllreduceOver : public ::testing::TestWithParam<SparseKind> {
 protected:
  SparseAllreduceOver() : world_(GetParam().make()) {}
  int size() const { return world_->size(); }
  const std::unique_ptr<EncodedWorld> world_;
};

INSTANTIATE_TEST_SUITE_P(Worlds, SparseAllreduceOver, ::testing::ValuesIn(kSparseWorlds),
                         [](const auto& kind) { return std::string(kind.param.name); });

TEST_P(SparseAllreduceOver, all_members_get_the_sum_of_what_they_have_selected) {
  for (const bool in_place : {false, true}) {
    SparseJob job(size(), kSparseCounts);
    kernels::ReduceSpec average;
    average.divisor = size();
    average.postscale = 4;
    std::vector<Expected> expected;
    for (size_t t = 0; t < kSparseCounts.size(); ++t)
      expected.push_back(ExpectedOf(&job, t, 4.0F / static_cast<float>(size())));
    job.Allreduce(world_.get(), average, in_place);
    for (size_t m = 0; m < job.members.size(); ++m) {
      for (size_t t = 0; t < kSparseCounts.size(); ++t) {
        const SparseTensor& tensor = job.members[m][t];
        ASSERT_EQ(in_place ? tensor.input : tensor.output, expected[t].sum) << m << " " << t;
        ASSERT_EQ(tensor.new_residual, expected[t].residuals[m]) << m << " " << t;
        ASSERT_EQ(tensor.new_velocity, expected[t].velocities[m]) << m << " " << t;
      }
    }
  }
  EXPECT_EQ(world_->carrier_counts().By(Carrier::kSparse, OpKind::kAllreduce),
            2U * static_cast<unsigned>(size()));
}

TEST_P(SparseAllreduceOver, a_step_that_is_not_finite_is_seen_by_all_and_enters_no_memory) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    SparseJob job(size(), kSparseCounts);
    job.members.back()[2].input[50000] = bad;
    job.Allreduce(world_.get());
    for (const auto& mine : job.members) {
      for (size_t t = 0; t < mine.size(); ++t) {
        ASSERT_EQ(mine[t].new_residual == mine[t].residual, t == 2) << t;
        ASSERT_EQ(mine[t].new_velocity == mine[t].velocity, t == 2) << t;
      }
      ASSERT_FALSE(std::isfinite(mine[2].output[50000]));
    }
  }
}

TEST_P(SparseAllreduceOver, a_member_that_has_joined_adds_nothing) {
  if (size() == 1) return;
  SparseJob job(size(), kSparseCounts);
  std::vector<Expected> expected;
  for (size_t t = 0; t < kSparseCounts.size(); ++t)
    expected.push_back(ExpectedOf(&job, t, 1, /*joined=*/1));
  job.Allreduce(world_.get(), {}, /*in_place=*/false, /*joined=*/1);
  for (const auto& mine : job.members) {
    for (size_t t = 0; t < mine.size(); ++t) ASSERT_EQ(mine[t].output, expected[t].sum) << t;
  }
  EXPECT_EQ(job.members[1][0].new_residual[0], 77);
}

TEST_P(SparseAllreduceOver, tensors_of_which_all_is_sent_travel_as_in_any_allreduce) {
  for (const std::vector<size_t>& whole : {std::vector<size_t>{0, 3, 5}, {4}, {1, 2, 4}}) {
    SparseJob sparse(size(), kSparseCounts), mixed(size(), kSparseCounts);
    for (auto& mine : mixed.members) {
      for (const size_t t : whole) mine[t].taken = 0;
    }
    sparse.Allreduce(world_.get());
    mixed.Allreduce(world_.get());
    for (size_t t = 0; t < kSparseCounts.size(); ++t) {
      const bool is_whole = std::find(whole.begin(), whole.end(), t) != whole.end();
      Floats sum(kSparseCounts[t]);
      for (const auto& mine : mixed.members) {
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += mine[t].input[i];
      }
      for (size_t m = 0; m < mixed.members.size(); ++m) {
        const Floats& output = mixed.members[m][t].output;
        ASSERT_EQ(output, is_whole ? mixed.members[0][t].output : sparse.members[m][t].output);
        for (size_t i = 0; is_whole && i < sum.size(); ++i) ASSERT_NEAR(output[i], sum[i], 1e-5);
      }
    }
  }
}

TEST(SparseAllreduce, a_large_batch_goes_in_parts_and_its_bytes_are_counted) {
  OverNet world(3);
  const std::vector<size_t> counts = {1500000, 700000, 300, 2500000, 5};
  SparseJob job(3, counts);
  std::vector<Expected> expected;
  for (size_t t = 0; t < counts.size(); ++t) expected.push_back(ExpectedOf(&job, t, 1));
  job.Allreduce(&world);
  uint64_t allgathers = 0;
  for (int c = 0; c < kCarrierCount; ++c)
    allgathers += world.carrier_counts().By(static_cast<Carrier>(c), OpKind::kAllgather);
  EXPECT_EQ(allgathers, 3U * 3);
  for (size_t t = 0; t < counts.size(); ++t)
    ASSERT_EQ(job.members[2][t].output, expected[t].sum) << t;
  // Two others, and three members count.
  EXPECT_EQ(world.carrier_counts().before_encoding(), 4700305U * 4 * 2 * 3);
  EXPECT_EQ(world.carrier_counts().after_encoding(), (15000U + 7000 + 3 + 25000 + 1) * 8 * 2 * 3);
}

TEST(SparseAllreduce, small_whole_tensors_travel_among_the_exchanges_of_the_parts) {
  OverNet world(3);
  SparseJob job(3, {2500000, 301, 2500000});
  for (auto& mine : job.members) mine[1].taken = 0;
  job.Allreduce(&world);
  const CarrierCounts& carrier_counts = world.carrier_counts();
  EXPECT_EQ(carrier_counts.By(Carrier::kNetPairwise, OpKind::kAlltoall), 3U);
  EXPECT_EQ(carrier_counts.By(Carrier::kNetPairwise, OpKind::kAllgather), 3U * 3);
  for (size_t i = 0; i < 301; ++i) {
    float sum = 0;
    for (const auto& mine : job.members) sum += mine[1].input[i];
    for (const auto& mine : job.members) ASSERT_EQ(mine[1].output[i], sum);
  }
}

TEST(SparseAllreduce, fewer_whole_elements_than_members_are_scaled_as_in_any_allreduce) {
  OverNet world(4);
  SparseJob job(4, {3000, 1, 2});
  for (auto& mine : job.members) mine[1].taken = mine[2].taken = 0;
  kernels::ReduceSpec reduce;
  reduce.prescale = 0.5;
  reduce.divisor = 4;
  reduce.postscale = 3;
  job.Allreduce(&world, reduce, /*in_place=*/false);
  EXPECT_EQ(world.carrier_counts().By(Carrier::kNetPairwise, OpKind::kAlltoall), 4U);
  for (size_t t = 1; t < 3; ++t) {
    for (size_t i = 0; i < t; ++i) {
      double sum = 0;
      for (const auto& mine : job.members) sum += mine[t].input[i];
      for (const auto& mine : job.members) EXPECT_NEAR(mine[t].output[i], sum * 0.5 / 4 * 3, 1e-6);
    }
  }
}

}  // namespace
}  // namespace hvdlite::comm::net_testing
