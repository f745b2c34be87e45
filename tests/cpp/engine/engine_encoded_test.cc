// Encoded allreduces through whole engines: where a rank's random numbers come from, and many at
// once from several threads under random delays.
#include <cmath>
#include <map>
#include <mutex>
#include <random>

#include "engine/job.h"
#include "testing/in_threads.h"
#include "testing/ranks.h"

namespace hvdlite::testing {
namespace {

using Floats = std::vector<float>;

// What becomes of these values by ternary(1).
struct Draw {
  std::string name = "x";
  uint64_t seed = 1;
  uint64_t step = 1;
};
Floats Ternary(Rank* me, const Floats& values, const Draw& draw) {
  Floats result(values.size());
  Submission s = Allreduce(draw.name, values, &result);
  s.request.codec = {Codec::kTernary, 1.0};
  s.feedback = {nullptr, draw.seed, draw.step};
  EXPECT_EQ(me->Do(std::move(s)).ToString(), Status::Ok().ToString());
  return result;
}

Floats Ramp() {
  Floats ramp(1000);
  for (size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<float>(i);
  return ramp;
}

TEST(EngineEncoded, random_numbers_depend_on_seed_step_and_name_and_on_nothing_else) {
  RunRanks({.size = 2}, [](Rank& me) {
    const Floats values = Ramp();
    const Floats first = Ternary(&me, values, {});
    EXPECT_EQ(Ternary(&me, values, {}), first);
    EXPECT_NE(Ternary(&me, values, {.seed = 2}), first);
    EXPECT_NE(Ternary(&me, values, {.step = 2}), first);
    EXPECT_NE(Ternary(&me, values, {.name = "y"}), first);
  });
}

// Two ranks with the same values and the same draws would always agree about the sign of an
// element: 0 or twice the scale.
TEST(EngineEncoded, ranks_draw_differently) {
  RunRanks({.size = 2}, [](Rank& me) {
    std::map<float, int> levels;
    for (const float value : Ternary(&me, Ramp(), {})) ++levels[value];
    ASSERT_EQ(levels.size(), 3U);
    for (const auto& [value, count] : levels) EXPECT_GT(count, 50) << value;
  });
}

class EngineEncodedJobs : public ::testing::TestWithParam<Job> {};
INSTANTIATE_TEST_SUITE_P(, EngineEncodedJobs,
                         ::testing::Values(Job{2, 1}, Job{3, 1}, Job{4, 1}, Job{2, 2}, Job{3, 3},
                                           Job{4, 2}),
                         [](const auto& job) {
                           return std::to_string(job.param.ranks) + "_ranks_on_" +
                                  std::to_string(job.param.hosts);
                         });

// What one thread of a rank does with one tensor again and again.
struct EncodedStream {
  CodecSpec spec;
  std::string name;
  Floats input, result, residual;
  std::vector<double> got, given;

  EncodedStream(const CodecSpec& codec, std::string its_name, size_t count)
      : spec(codec),
        name(std::move(its_name)),
        input(count),
        result(count),
        residual(count),
        got(count),
        given(count) {}
  HandlePtr Submit(Rank* me, uint64_t step) {
    std::mt19937 random(static_cast<unsigned>(step * 31) + static_cast<unsigned>(me->rank));
    std::normal_distribution<float> normal;
    for (float& value : input) value = normal(random);
    for (size_t i = 0; i < input.size(); ++i) given[i] += input[i];
    Submission s = Allreduce(name, input, &result);
    s.request.codec = spec;
    s.feedback = {residual.data(), 5, step};
    return me->Submit(std::move(s));
  }
};

// Error feedback loses nothing, and all ranks have the same bits.
TEST_P(EngineEncodedJobs, many_at_once_from_two_threads_with_random_delays) {
  RanksOptions options{.size = GetParam().ranks, .hosts = GetParam().hosts};
  options.config.debug_delay_microseconds = 200;
  std::mutex mutex;
  std::map<std::string, Floats> everyones;
  RunRanks(options, [&](Rank& me) {
    InThreads(2, [&](int thread) {
      std::vector<EncodedStream> streams;
      for (int number = 1; number < kCodecCount; ++number) {
        const auto codec = static_cast<Codec>(number);
        const double parameter = codec == Codec::kTernary ? 2.5 : codec == Codec::kQsgd ? 7 : 0.5;
        const std::string name = std::string(Of(codec).name) + std::to_string(thread);
        streams.emplace_back(CodecSpec{codec, Of(codec).parameter.empty() ? 0 : parameter}, name,
                             number % 2 == thread ? 40U : 3000U * static_cast<unsigned>(number));
      }
      for (uint64_t step = 0; step < 4; ++step) {
        std::vector<HandlePtr> handles;
        for (EncodedStream& stream : streams) handles.push_back(stream.Submit(&me, step));
        for (size_t i = 0; i < streams.size(); ++i) {
          EncodedStream& stream = streams[i];
          EXPECT_TRUE(me.Wait(handles[i]).ok());
          for (size_t k = 0; k < stream.got.size(); ++k) stream.got[k] += stream.result[k];
          const std::lock_guard<std::mutex> lock(mutex);
          const auto [first, is_first] =
              everyones.emplace(stream.name + std::to_string(step), stream.result);
          EXPECT_EQ(first->second, stream.result) << stream.name;
        }
      }
      for (EncodedStream& stream : streams) {
        std::vector<double> sent(stream.given), sum(sent.size());
        for (size_t i = 0; i < sent.size(); ++i) sent[i] -= stream.residual[i];
        EXPECT_TRUE(me.Wait(me.Submit(Allreduce(stream.name + ".sent", sent, &sum))).ok());
        for (size_t i = 0; i < sum.size(); ++i) {
          if (std::fabs(stream.got[i] - sum[i]) < 1e-3) continue;
          ADD_FAILURE() << stream.name << " " << i << ": " << stream.got[i] << " " << sum[i];
          break;
        }
      }
    });
  });
}

}  // namespace
}  // namespace hvdlite::testing
