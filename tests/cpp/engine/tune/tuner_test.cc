// The search among settings, on scores that are functions of the setting.
#include "engine/tune/tuner.h"
#include "testing/says.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

namespace hvdlite::engine {
namespace {

DialRanges AllDials() {
  DialRanges ranges;
  for (int d = 0; d < kDialCount; ++d) ranges[d] = WidestRange(static_cast<Dial>(d));
  return ranges;
}

Setting With(Dial dial, int notch) {
  Setting setting;
  setting.at(dial) = notch;
  return setting;
}

// A machine whose speed depends on the setting, and on chance.
class Machine {
 public:
  using Speed = std::function<double(const Setting&)>;

  explicit Machine(Speed speed, double noise = 0, uint32_t seed = 1)
      : speed_(std::move(speed)), noise_(noise), random_(seed) {}

  void Become(Speed speed) { speed_ = std::move(speed); }
  double SpeedOf(const Setting& setting) const { return speed_(setting); }

  // Returns the mean speed over `samples`, by that of the default.
  double Run(Tuner* tuner, int samples) {
    double seconds = 0;  // of equal steps
    for (int i = 0; i < samples; ++i) {
      const double speed = speed_(tuner->setting());
      seconds += 1 / speed;
      tuner->Add(speed * std::exp(noise_ * normal_(random_)));
    }
    return samples / seconds / speed_({});
  }

 private:
  Speed speed_;
  double noise_;
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
};

// Falls by `slope` for each notch away from `best`.
Machine::Speed Peak(Setting best, double slope) {
  return [=](const Setting& setting) {
    double speed = 1e9;
    for (int d = 0; d < kDialCount; ++d)
      speed /= 1 + slope * std::abs(setting.notches[d] - best.notches[d]);
    return speed;
  };
}

TunerOptions AnyStart(DialRanges ranges = AllDials()) {
  TunerOptions options;
  options.ranges = ranges;
  return options;
}

TEST(Tuner, samples_of_the_warmup_are_not_used) {
  Tuner tuner(AnyStart());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(tuner.Add(i == 0 ? 1.0 : 1e9).event, Tuner::Event::kWarmsUp);
    EXPECT_TRUE(tuner.setting().is_default());
  }
  EXPECT_EQ(tuner.champion_score(), 0);
  tuner.Add(1e9);
  EXPECT_NEAR(tuner.champion_score(), 1e9, 1);
}

TEST(Tuner, finds_the_peak_of_one_dial) {
  for (const int notch : {-4, -3, -1, 1, 2, 4}) {
    Tuner tuner(AnyStart());
    Machine machine(Peak(With(Dial::kWindow, notch), 0.1));
    machine.Run(&tuner, 300);
    EXPECT_EQ(tuner.champion(), With(Dial::kWindow, notch)) << notch;
    EXPECT_TRUE(tuner.converged());
  }
}

TEST(Tuner, finds_the_peak_of_all_dials) {
  Setting best;
  best.notches = {3, -2, 1, 2, -3};
  Tuner tuner(AnyStart());
  Machine machine(Peak(best, 0.1));
  machine.Run(&tuner, 1000);
  EXPECT_EQ(tuner.champion(), best);
}

TEST(Tuner, a_fixed_dial_stays) {
  DialRanges ranges = AllDials();
  ranges[static_cast<size_t>(Dial::kWindow)] = {};
  Setting best;
  best.notches = {3, -2, 0, 0, 0};
  Tuner tuner(AnyStart(ranges));
  Machine machine(Peak(best, 0.1));
  for (int i = 0; i < 400; ++i) {
    machine.Run(&tuner, 1);
    ASSERT_EQ(tuner.setting().at(Dial::kWindow), 0);
  }
  EXPECT_EQ(tuner.champion(), With(Dial::kFusion, -2));
}

TEST(Tuner, nothing_to_tune_is_no_harm) {
  Tuner tuner(AnyStart({}));
  Machine machine(Peak({}, 0.1), 0.1);
  EXPECT_NEAR(machine.Run(&tuner, 500), 1, 1e-9);
}

class TunerNoise : public ::testing::TestWithParam<double> {};

// The promise: with all the searching, at most 2 % slower than the default.
TEST_P(TunerNoise, if_the_default_is_best_the_whole_job_loses_two_percent_at_most) {
  for (const double slope : {0.0, 0.01, 0.05, 0.3, 2.0}) {
    for (uint32_t seed = 1; seed <= 20; ++seed) {
      Tuner tuner(AnyStart());
      Machine machine(Peak({}, slope), GetParam(), seed);
      EXPECT_GT(machine.Run(&tuner, 1500), 0.98) << "slope " << slope << ", seed " << seed;
    }
  }
}

TEST_P(TunerNoise, a_better_setting_is_found) {
  int found = 0;
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    Tuner tuner(AnyStart());
    Machine machine(Peak(With(Dial::kWindow, 3), 0.15), GetParam(), seed);
    machine.Run(&tuner, 600);
    found += machine.SpeedOf(tuner.champion()) > 1.2 * machine.SpeedOf({}) ? 1 : 0;
  }
  EXPECT_GE(found, 18);
}

INSTANTIATE_TEST_SUITE_P(Noise, TunerNoise, ::testing::Values(0.0, 0.02, 0.1));

TEST(Tuner, a_change_of_regime_begins_a_new_search) {
  Setting before = With(Dial::kWindow, 3);
  Setting after = With(Dial::kWindow, -3);
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    Tuner tuner(AnyStart());
    Machine machine(Peak(before, 0.15), 0.02, seed);
    machine.Run(&tuner, 400);
    ASSERT_GT(machine.SpeedOf(tuner.champion()), 1.3 * machine.SpeedOf({})) << seed;
    machine.Become(Peak(after, 0.15));
    int restarts = 0;
    for (int i = 0; i < 400; ++i) {
      const double speed = machine.SpeedOf(tuner.setting());
      restarts += tuner.Add(speed).event == Tuner::Event::kRegime ? 1 : 0;
    }
    EXPECT_GT(machine.SpeedOf(tuner.champion()), 1.3 * machine.SpeedOf({})) << seed;
    EXPECT_EQ(restarts, 1);
  }
}

// A longer model, say: the same settings are best, so the champion stays.
TEST(Tuner, a_level_that_moves_for_all_settings_keeps_the_champion) {
  Tuner tuner(AnyStart());
  const Setting best = With(Dial::kFusion, -2);
  Machine machine(Peak(best, 0.2));
  machine.Run(&tuner, 300);
  ASSERT_EQ(tuner.champion(), best);
  machine.Become([=](const Setting& s) { return Peak(best, 0.2)(s) / 5; });
  machine.Run(&tuner, 300);
  EXPECT_EQ(tuner.champion(), best);
}

TEST(Tuner, one_strange_sample_is_no_change_of_regime) {
  Tuner tuner(AnyStart({}));
  for (int i = 0; i < 200; ++i) {
    const double score = i % 4 == 0 ? 1e8 : 1e9;
    EXPECT_NE(tuner.Add(score).event, Tuner::Event::kRegime);
  }
}

// The result of an earlier job is tried against the default first.
TEST(Tuner, a_saved_setting_is_the_first_champion) {
  TunerOptions options = AnyStart();
  options.start = With(Dial::kWindow, 2);
  Tuner good(options);
  EXPECT_EQ(good.setting(), options.start);
  Machine(Peak(options.start, 0.2)).Run(&good, 20);
  EXPECT_EQ(good.champion(), options.start);
  Tuner bad(options);
  Machine(Peak({}, 0.2)).Run(&bad, 20);
  EXPECT_TRUE(bad.champion().is_default());
}

TEST(Tuner, a_saved_setting_stays_in_the_ranges) {
  TunerOptions options = AnyStart({});
  options.start = With(Dial::kWindow, 2);
  EXPECT_TRUE(Tuner(options).setting().is_default());
}

TEST(Tuner, scores_that_are_no_numbers_are_ignored) {
  Tuner tuner(AnyStart());
  for (const double score : {0.0, -1.0, std::nan("")}) tuner.Add(score);
  for (const double score : {0.0, -1.0, std::nan("")}) tuner.Add(score);
  EXPECT_EQ(tuner.champion_score(), 0);
}

TEST(Duel, the_two_take_turns) {
  Duel duel(0.01, false);
  std::string turns;
  for (int i = 0; i < 4; ++i) {
    turns += duel.challengers_turn() ? 'X' : 'C';
    EXPECT_EQ(duel.Add(0), Duel::Verdict::kOpen);
  }
  EXPECT_EQ(turns, "CXXC");
}

struct DuelCase {
  const char* name;
  std::vector<double> ratios;
  bool wins_ties;
  Duel::Verdict last;
};

class DuelTable : public ::testing::TestWithParam<DuelCase> {};

TEST_P(DuelTable, ends_as_it_should) {
  Duel duel(0.02, GetParam().wins_ties);
  Duel::Verdict last = Duel::Verdict::kOpen;
  for (const double ratio : GetParam().ratios) {
    ASSERT_EQ(last, Duel::Verdict::kOpen);
    for (int i = 0; i < 2; ++i) last = duel.Add(duel.challengers_turn() ? std::log(ratio) : 0);
  }
  EXPECT_EQ(last, GetParam().last);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, DuelTable,
    ::testing::Values(DuelCase{"hopeless", {0.6}, false, Duel::Verdict::kLost},
                      DuelCase{"bad", {0.85, 0.88}, false, Duel::Verdict::kLost},
                      DuelCase{"bad_once", {0.85, 1.1}, false, Duel::Verdict::kOpen},
                      DuelCase{"better", {1.1, 1.1, 1.1}, false, Duel::Verdict::kWon},
                      DuelCase{"equal", {1, 1, 0.99}, false, Duel::Verdict::kLost},
                      DuelCase{"a_little_better", {1.01, 1.0, 1.01}, false, Duel::Verdict::kLost},
                      DuelCase{"default_a_little_better", std::vector<double>(20, 1.01), true,
                               Duel::Verdict::kWon},
                      DuelCase{"default_worse", {0.95, 0.95, 0.95}, true, Duel::Verdict::kLost},
                      DuelCase{"scattered",
                               {1.5, 0.8, 1.5, 0.8, 1.5, 0.8, 1.5, 0.8, 1.5, 0.8},
                               false,
                               Duel::Verdict::kLost}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(Setting, travels_as_one_number) {
  Setting setting;
  EXPECT_TRUE(setting.is_default());
  for (int d = 0; d < kDialCount; ++d) {
    const DialRange range = WidestRange(static_cast<Dial>(d));
    for (const int notch : {range.lowest, range.highest}) {
      setting.notches[d] = notch;
      Setting again;
      ASSERT_TRUE(Setting::Unpack(setting.Pack(), &again));
      EXPECT_EQ(again, setting);
    }
  }
}

TEST(Setting, numbers_that_no_rank_sends_are_refused) {
  Setting out;
  EXPECT_FALSE(Setting::Unpack(0, &out));
  EXPECT_FALSE(Setting::Unpack(UINT64_MAX, &out));
  EXPECT_FALSE(Setting::Unpack(Setting().Pack() | uint64_t{1} << 40, &out));
  EXPECT_FALSE(Setting::Unpack(With(Dial::kFusion, 1).Pack(), &out));
}

TEST(Setting, values_follow_the_configuration) {
  Config config;
  config.cycle_time = 5;
  Setting setting;
  setting.at(Dial::kWindow) = 2;
  setting.at(Dial::kFusion) = -1;
  EXPECT_EQ(setting.CycleTimeMs(config), 20);
  EXPECT_EQ(setting.FusionThreshold(config), 32 << 20);
  DialRanges ranges = AllDials();
  ranges[static_cast<size_t>(Dial::kChunk)] = {};
  EXPECT_EQ(setting.Describe(config, ranges),
            "cycle_time 20 ms, fusion_threshold 32 MB, net_byte_cost 1 times the default, "
            "shm_small_bytes 32768 bytes");
}

TEST(Setting, dials_are_fixed_by_name) {
  DialRanges ranges = AllDials();
  EXPECT_TRUE(Fix("cycle_time, net_byte_cost,", &ranges).ok());
  EXPECT_TRUE(ranges[static_cast<size_t>(Dial::kWindow)].fixed());
  EXPECT_TRUE(ranges[static_cast<size_t>(Dial::kByteCost)].fixed());
  EXPECT_FALSE(ranges[static_cast<size_t>(Dial::kFusion)].fixed());
  const Status wrong = Fix("cycle_tome", &ranges);
  EXPECT_TRUE(FailsWith(wrong, StatusCode::kInvalidArgument, "'cycle_tome'"));
}

}  // namespace
}  // namespace hvdlite::engine
