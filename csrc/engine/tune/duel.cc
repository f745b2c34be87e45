#include "engine/tune/duel.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace hvdlite::engine {

Duel::Verdict Duel::Add(double log_score) {
  const bool challengers = challengers_turn();
  ++samples_;
  if (samples_ % 2 == 1) {
    first_ = log_score;
    return Verdict::kOpen;
  }
  ratios_.push_back(challengers ? log_score - first_ : first_ - log_score);
  return Judge();
}

double Duel::mean() const {
  if (ratios_.empty()) return 0;
  return std::accumulate(ratios_.begin(), ratios_.end(), 0.0) / static_cast<double>(ratios_.size());
}

double Duel::deviation() const {
  if (ratios_.size() < 2) return noise_;
  const double middle = mean();
  double squares = 0;
  for (double ratio : ratios_) squares += (ratio - middle) * (ratio - middle);
  return std::sqrt(squares / static_cast<double>(ratios_.size() - 1));
}

Duel::Verdict Duel::Judge() const {
  constexpr double kHopeless = -0.35;  // after one pair
  constexpr double kBad = -0.10;       // after two pairs
  constexpr double kSure = 2.5;        // standard errors
  const size_t n = ratios_.size();
  if (n == 1 && ratios_[0] < kHopeless) return Verdict::kLost;
  if (n == 2 && ratios_[0] < 0 && ratios_[1] < 0 && mean() < kBad) return Verdict::kLost;
  if (n < 3) return Verdict::kOpen;
  // Few ratios may lie close together by chance.
  const double error = std::max(deviation(), noise_) / std::sqrt(static_cast<double>(n));
  const double worthwhile = wins_ties_ ? 0 : kWorthwhile;
  if (mean() - kSure * error > 0 && mean() > worthwhile) return Verdict::kWon;
  if (mean() + error < worthwhile) return Verdict::kLost;
  if (n < (wins_ties_ ? 2 : 1) * kMostPairs) return Verdict::kOpen;
  return wins_ties_ && mean() > 0 ? Verdict::kWon : Verdict::kLost;
}

}  // namespace hvdlite::engine
