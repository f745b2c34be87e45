#include "engine/tune/tuner.h"

#include <algorithm>
#include <cmath>

namespace hvdlite::engine {
namespace {

constexpr double kFirstCredit = 8;  // samples
constexpr double kCreditPerSample = 0.01;
// A new regime is worth a search of its own.
constexpr double kCreditOfRegime = 4;
constexpr int kShortestPause = 8;
constexpr int kLongestPause = 256;
// How fast the champion's level and the noise follow its scores.
constexpr double kFollow = 0.1;
// The samples from which the noise is known before the first duel.
constexpr int kFirstRest = 8;
const double kStrange = std::log(1.3);
constexpr int kStrangeSamples = 4;

// In the order in which they are tried: the long ones first, because one step of a dial may change
// too little to be seen.
constexpr int kSteps[] = {2, -2, 1, -1};

// Of a move other than that to the default.
Dial DialOf(size_t move) {
  return static_cast<Dial>((move - 1) % kDialCount);
}
size_t StepOf(size_t move) {
  return (move - 1) / kDialCount;
}

}  // namespace

Tuner::Tuner(const TunerOptions& options)
    : ranges_(options.ranges),
      warmup_left_(options.warmup_samples),
      pause_(kShortestPause),
      credit_(kFirstCredit) {
  for (int d = 0; d < kDialCount; ++d) {
    const auto dial = static_cast<Dial>(d);
    const DialRange& range = ranges_[static_cast<size_t>(d)];
    champion_.at(dial) = std::clamp(options.start.at(dial), range.lowest, range.highest);
  }
  BeginSearch(champion_.is_default() ? kNone : kToDefault);
  rest_ = kFirstRest;
}

double Tuner::champion_score() const {
  return has_level_ ? std::exp(level_) : 0;
}

std::optional<Setting> Tuner::After(size_t move) const {
  if (move == kToDefault) return champion_.is_default() ? std::nullopt : std::optional(Setting());
  const Dial dial = DialOf(move);
  const DialRange& range = ranges_[static_cast<size_t>(dial)];
  Setting next = champion_;
  next.at(dial) += kSteps[StepOf(move)];
  if (next.at(dial) < range.lowest || next.at(dial) > range.highest) return std::nullopt;
  return next;
}

Tuner::Outcome Tuner::Add(double score) {
  Outcome outcome;
  outcome.measured = setting();
  if (warmup_left_ > 0) {
    --warmup_left_;
    outcome.event = Event::kWarmsUp;
    return outcome;
  }
  if (!(score > 0)) return outcome;
  const double log_score = std::log(score);
  credit_ = std::min(kFirstCredit, credit_ + kCreditPerSample);
  const bool champions = !duel_ || !duel_->challengers_turn();
  if (champions && RegimeChanges(log_score)) {
    outcome.event = Event::kRegime;
    credit_ = std::max(credit_, kCreditOfRegime);
    BeginSearch(kToDefault);
    return outcome;
  }
  if (duel_) {
    const Duel::Verdict verdict = duel_->Add(log_score);
    if (verdict != Duel::Verdict::kOpen) EndDuel(*duel_, verdict, &outcome);
    return outcome;
  }
  if (--rest_ <= 0 && credit_ > 0) BeginDuel();
  return outcome;
}

bool Tuner::RegimeChanges(double log_score) {
  if (!has_level_) level_ = last_ = log_score;
  has_level_ = true;
  if (std::abs(log_score - level_) <= kStrange) {
    level_ += kFollow * (log_score - level_);
    // Two samples in a row differ as the two of a pair do.
    variance_ += kFollow * ((log_score - last_) * (log_score - last_) - variance_);
    last_ = log_score;
    strange_ = 0;
    strange_sum_ = 0;
    return false;
  }
  strange_sum_ += log_score;
  if (++strange_ < kStrangeSamples) return false;
  level_ = strange_sum_ / strange_;
  strange_ = 0;
  strange_sum_ = 0;
  return true;
}

void Tuner::BeginSearch(size_t preferred) {
  duel_.reset();
  tried_.fill(false);
  costs_.fill(0);
  preferred_ = preferred;
  converged_ = false;
  rest_ = 0;
  pause_ = kShortestPause;
}

void Tuner::BeginDuel() {
  const auto possible = [this](size_t move) {
    return !tried_[move] && costs_[move] < credit_ && After(move).has_value();
  };
  move_ = preferred_ != kNone && possible(preferred_) ? preferred_ : 0;
  preferred_ = kNone;
  while (move_ < kMoves && !possible(move_)) ++move_;
  if (move_ == kMoves) {  // a round is over
    converged_ = true;
    tried_.fill(false);
    rest_ = pause_;
    pause_ = std::min(2 * pause_, kLongestPause);
    return;
  }
  challenger_ = After(move_).value_or(champion_);
  duel_.emplace(std::sqrt(variance_), /*wins_ties=*/move_ == kToDefault);
}

void Tuner::EndDuel(const Duel& duel, Duel::Verdict verdict, Outcome* outcome) {
  const double mean = duel.mean();
  const double pairs = static_cast<double>(duel.pairs());
  duel_.reset();  // `duel` may be it
  outcome->ratio = std::exp(mean);
  if (verdict == Duel::Verdict::kLost) {
    outcome->event = Event::kLost;
    outcome->other = challenger_;
    // A sample has so many steps: the slower the setting, the longer it takes.
    costs_[move_] = pairs * std::max(0.0, 1 / outcome->ratio - 1);
    credit_ -= costs_[move_];
    tried_[move_] = true;
    // While it searches, the next duel begins at once.
    rest_ = converged_ ? pause_ : 0;
    if (rest_ == 0 && credit_ > 0) BeginDuel();
    return;
  }
  outcome->event = Event::kWon;
  outcome->other = champion_;
  champion_ = challenger_;
  level_ += mean;
  last_ += mean;
  BeginSearch(move_);
  if (move_ != kToDefault) {
    // The way back leads to a setting that has just lost.
    const size_t back = StepOf(move_) ^ 1;
    tried_[1 + back * kDialCount + static_cast<size_t>(DialOf(move_))] = true;
  }
  if (credit_ > 0) BeginDuel();
}

}  // namespace hvdlite::engine
