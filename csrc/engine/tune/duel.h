// Duel: whether a challenger is faster than the champion. DECIDES; pure.
//
// The two take turns, one sample each: C X X C C X X C. Each neighbouring pair gives one ratio, so
// what slows both (a busy machine, a longer model) does not count. A challenger that is clearly
// worse loses after a pair or two. One that is better has to show so beyond the noise.
#pragma once

#include <cstddef>
#include <vector>

namespace hvdlite::engine {

class Duel {
 public:
  enum class Verdict { kOpen, kWon, kLost };

  static constexpr double kWorthwhile = 0.02;  // a smaller gain changes nothing
  static constexpr size_t kMostPairs = 10;

  // `noise`: the standard deviation of a ratio's logarithm, as far as it is known.
  // `wins_ties`: the challenger is the default, which wins unless the champion is better.
  Duel(double noise, bool wins_ties) : noise_(noise), wins_ties_(wins_ties) {}

  bool challengers_turn() const { return samples_ % 4 == 1 || samples_ % 4 == 2; }
  // Takes the logarithm of the score of the sample whose turn it is.
  Verdict Add(double log_score);

  // The logarithm of the challenger's score by the champion's: mean, and deviation of one pair.
  double mean() const;
  double deviation() const;
  size_t pairs() const { return ratios_.size(); }

 private:
  Verdict Judge() const;

  const double noise_;
  const bool wins_ties_;
  int samples_ = 0;
  double first_ = 0;  // of a pair
  std::vector<double> ratios_;
};

}  // namespace hvdlite::engine
