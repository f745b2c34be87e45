#include "kernels/select.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/select.h"
#include "testing/normal.h"

namespace hvdlite::kernels {
namespace {

using Floats = std::vector<float>;
using testing::Normal;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// What a selection leaves behind.
struct Outcome {
  Floats residual, velocity;
  std::vector<int32_t> positions;  // sorted
  Floats values;                   // in the order of the positions
};

struct Input {
  Floats gradient, residual;
  Floats velocity = {};  // empty: no momentum
  bool nesterov = false;
  bool masking = false;
  size_t taken = 1;
  int64_t stretch = 1 << 30;
};

Outcome Selected(const cpu::KernelTable& table, const Input& given, size_t offset = 0) {
  const size_t count = given.gradient.size();
  // A few floats before each array, so that results are not aligned as they would be.
  Floats residual(count + offset, -7), velocity(count + offset, -7), values(given.taken);
  std::vector<int32_t> positions(given.taken);
  Floats gradient = given.gradient;
  Selection selection;
  selection.count = static_cast<int64_t>(count);
  selection.gradient = selection.cleared = gradient.data();
  selection.residual = given.residual.data();
  if (!given.velocity.empty()) selection.velocity = given.velocity.data();
  selection.momentum = 0.9F;
  selection.nesterov = given.nesterov;
  selection.masking = given.masking;
  selection.new_residual = residual.data() + offset;
  selection.new_velocity = velocity.data() + offset / 2;
  selection.taken = static_cast<int64_t>(given.taken);
  selection.values = values.data();
  selection.positions = positions.data();
  cpu::Select(table, selection, given.stretch);
  EXPECT_EQ(gradient, Floats(count));

  std::vector<size_t> order(given.taken);
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return positions[a] < positions[b]; });
  Outcome outcome;
  for (const size_t i : order) {
    outcome.positions.push_back(positions[i]);
    outcome.values.push_back(values[i]);
  }
  const auto begin = static_cast<std::ptrdiff_t>(offset);
  outcome.residual.assign(residual.begin() + begin, residual.end());
  if (!given.velocity.empty()) {
    const auto first = velocity.begin() + begin / 2;
    outcome.velocity.assign(first, first + static_cast<std::ptrdiff_t>(count));
  }
  return outcome;
}

// The definition, one element after the other.
Outcome Plain(const Input& given) {
  Outcome outcome;
  for (size_t i = 0; i < given.gradient.size(); ++i) {
    float step = given.gradient[i];
    if (!given.velocity.empty()) {
      if (given.nesterov) {
        const float sum = given.velocity[i] + step;
        outcome.velocity.push_back(sum * 0.9F);
        step = outcome.velocity[i] + step;
      } else {
        const float slower = given.velocity[i] * 0.9F;
        outcome.velocity.push_back(slower + step);
        step = outcome.velocity[i];
      }
    }
    outcome.residual.push_back(given.residual[i] + step);
  }
  const auto size_of = [&](int32_t at) {
    const float due = outcome.residual[static_cast<size_t>(at)];
    return std::isnan(due) ? std::numeric_limits<double>::max() : std::fabs(double{due});
  };
  std::vector<int32_t> order(given.gradient.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return size_of(a) > size_of(b); });
  order.resize(given.taken);
  std::sort(order.begin(), order.end());
  outcome.positions = order;
  for (const int32_t at : order) {
    outcome.values.push_back(outcome.residual[static_cast<size_t>(at)]);
    outcome.residual[static_cast<size_t>(at)] = 0;
    if (given.masking) outcome.velocity[static_cast<size_t>(at)] = 0;
  }
  return outcome;
}

// The same bits, where a NaN is a NaN.
std::vector<uint32_t> BitsOf(const Floats& values) {
  std::vector<uint32_t> bits;
  for (float value : values)
    bits.push_back(std::isnan(value) ? 0x7FC00000 : std::bit_cast<uint32_t>(value));
  return bits;
}

void ExpectSame(const Outcome& found, const Outcome& expected, const std::string& what) {
  EXPECT_EQ(found.positions, expected.positions) << what;
  EXPECT_EQ(BitsOf(found.values), BitsOf(expected.values)) << what;
  EXPECT_EQ(BitsOf(found.residual), BitsOf(expected.residual)) << what;
  EXPECT_EQ(BitsOf(found.velocity), BitsOf(expected.velocity)) << what;
}

void ExpectAsDefined(Input given, size_t offset = 0) {
  const Outcome expected = Plain(given);
  for (const int64_t stretch : {1 << 30, 1 << 16, 100}) {
    given.stretch = stretch;
    for (const cpu::KernelTable* table : cpu::SupportedTables()) {
      const std::string what = std::string(table->name) + ", " + std::to_string(given.taken) +
                               " of " + std::to_string(given.gradient.size()) + ", offset " +
                               std::to_string(offset) + ", stretch " + std::to_string(stretch);
      ExpectSame(Selected(*table, given, offset), expected, what);
    }
  }
}

Input Drawn(size_t count, size_t taken, bool momentum, bool nesterov, bool masking) {
  const auto seed = static_cast<unsigned>(count + taken);
  Input drawn{Normal(count, seed), Normal(count, seed + 1)};
  if (momentum) drawn.velocity = Normal(count, seed + 2);
  drawn.nesterov = nesterov;
  drawn.masking = masking;
  drawn.taken = taken;
  return drawn;
}

TEST(SelectTest, IsTheDefinitionOnEveryInstructionSetAtEveryLengthAndAddress) {
  for (const size_t count : {1, 2, 15, 16, 63, 64, 65, 127, 129, 1000, 4097}) {
    for (const size_t taken : {size_t{1}, count / 100, count / 3, count - 1, count}) {
      if (taken < 1) continue;
      for (const size_t offset : {0, 2, 3}) {
        ExpectAsDefined(Drawn(count, taken, false, false, false), offset);
        ExpectAsDefined(Drawn(count, taken, true, false, true), offset);
        ExpectAsDefined(Drawn(count, taken, true, false, false), offset);
        ExpectAsDefined(Drawn(count, taken, true, true, true), offset);
      }
    }
  }
}

// These are written past the caches.
TEST(SelectTest, IsTheDefinitionForLargeTensors) {
  for (const size_t offset : {0, 1, 32}) {
    ExpectAsDefined(Drawn(300001, 300, false, false, false), offset);
    ExpectAsDefined(Drawn(300001, 300, true, false, true), offset);
    ExpectAsDefined(Drawn(300001, 60000, true, true, true), offset);
  }
}

// In ascending order each element is a candidate, in descending order few are.
TEST(SelectTest, TheOrderOfTheElementsDoesNotMatter) {
  for (const bool ascends : {true, false}) {
    Input given = Drawn(20000, 20, false, false, false);
    std::fill(given.residual.begin(), given.residual.end(), 0.0F);
    std::sort(given.gradient.begin(), given.gradient.end(), [&](float a, float b) {
      return ascends ? std::fabs(a) < std::fabs(b) : std::fabs(a) > std::fabs(b);
    });
    ExpectAsDefined(given);
  }
}

TEST(SelectTest, TakesTheFirstOfEqualElements) {
  for (const float value : {0.0F, 2.5F}) {
    Input given{Floats(5000, value), Floats(5000, 0.0F)};
    given.gradient[2] = -value;
    given.taken = 30;
    ExpectAsDefined(given);
    EXPECT_EQ(Selected(cpu::ActiveTable(), given).positions.back(), 29);
  }
}

TEST(SelectTest, TakesNanBeforeInfinityBeforeAllNumbers) {
  Input given = Drawn(3000, 3, true, false, true);
  given.gradient[5] = std::numeric_limits<float>::max() / 2;
  given.gradient[100] = kInfinity;
  given.gradient[2900] = kNan;
  given.residual[2999] = -kInfinity;
  ExpectAsDefined(given);
  given.taken = 1;
  EXPECT_EQ(Selected(cpu::ActiveTable(), given).positions, std::vector<int32_t>{2900});
}

TEST(SelectTest, LeavesItsSourcesAlone) {
  const Input given = Drawn(1000, 10, true, true, true);
  const Input before = given;
  Selected(cpu::ActiveTable(), given);
  EXPECT_EQ(given.gradient, before.gradient);
  EXPECT_EQ(given.residual, before.residual);
  EXPECT_EQ(given.velocity, before.velocity);
}

TEST(SpreadTest, AddsInTheOrderOfThePairsAndMultipliesOnce) {
  const Floats values = {1e8F, 3, 1, -5e7F, 0.1F};
  const std::vector<int32_t> positions = {7, 0, 7, 7, 9};
  for (const float factor : {1.0F, 0.25F, 1.0F / 3}) {
    Floats output(10, 0.0F);
    AddPairs({{values.data(), positions.data(), 2}, {values.data() + 2, positions.data() + 2, 3}},
             factor, output.data());
    Floats expected(10, 0.0F);
    for (size_t i = 0; i < values.size(); ++i)
      expected[static_cast<size_t>(positions[i])] += values[i];
    for (float& each : expected) each *= factor;
    EXPECT_EQ(output, expected);
  }
}

TEST(SpreadTest, FindsAPositionOutside) {
  const Floats values = {1, 2};
  for (const int32_t outside : {-1, 10, std::numeric_limits<int32_t>::min()}) {
    const std::vector<int32_t> positions = {9, outside};
    EXPECT_TRUE(AreInside({values.data(), positions.data(), 1}, 10));
    EXPECT_FALSE(AreInside({values.data(), positions.data(), 2}, 10));
  }
}

}  // namespace
}  // namespace hvdlite::kernels
