// Tuner: searches the setting with the highest score, and never ends. DECIDES; pure, without a
// clock.
//
//   warms up ── searches ──────────────── all challengers have lost ── rests, tries one, rests, ...
//                  ▲  a duel per challenger                              │
//                  └──────────── the regime changes ─────────────────────┘
//
// The champion starts as the default. A challenger differs from it in one dial. One that wins a
// duel becomes the champion, and the search goes on from there. The default is a challenger of
// every other champion, again and again, and wins ties. Lost duels may cost 1 % of the time, and a
// few samples at the beginning (the credit). A challenger that cost more than there is now waits.
// When the champion's score moves by 30 % for several samples, the regime has changed (another
// model, another network): the search begins again.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "engine/tune/duel.h"
#include "engine/tune/setting.h"

namespace hvdlite::engine {

struct TunerOptions {
  DialRanges ranges{};     // a fixed dial stays at 0
  int warmup_samples = 3;  // not used
  Setting start;           // the result of an earlier job
};

class Tuner {
 public:
  enum class Event {
    kWarmsUp,   // the sample is not used
    kMeasures,  // nothing is decided yet
    kWon,       // `other` was the champion
    kLost,      // `other` was the challenger
    kRegime,    // the regime has changed
  };
  struct Outcome {
    Event event = Event::kMeasures;
    Setting measured;  // what the sample was made with
    Setting other;
    double ratio = 1;  // of the duel: the challenger's score by the champion's
  };

  explicit Tuner(const TunerOptions& options);

  // The setting for the next sample.
  Setting setting() const { return duel_ && duel_->challengers_turn() ? challenger_ : champion_; }
  const Setting& champion() const { return champion_; }
  // The champion's usual score; 0 before it has one.
  double champion_score() const;
  // Whether all challengers have lost since the last change.
  bool converged() const { return converged_; }
  // Takes the score of a sample that was made with setting().
  Outcome Add(double score);

 private:
  // In this order: back to the default; two steps up and down each dial; one step up and down.
  static constexpr size_t kToDefault = 0;
  static constexpr size_t kMoves = 1 + kDialCount * 4;
  static constexpr size_t kNone = kMoves;

  // Where the move leads from the champion; nothing if it leaves a range.
  std::optional<Setting> After(size_t move) const;
  // Whether the champion's score shows another regime.
  bool RegimeChanges(double log_score);
  void BeginSearch(size_t preferred);
  void BeginDuel();
  void EndDuel(const Duel& duel, Duel::Verdict verdict, Outcome* outcome);

  const DialRanges ranges_;
  int warmup_left_;
  Setting champion_, challenger_;
  std::optional<Duel> duel_;
  size_t move_ = kNone;       // of the duel
  size_t preferred_ = kNone;  // to be tried first
  std::array<bool, kMoves> tried_{};
  std::array<double, kMoves> costs_{};  // of the last duel, in samples
  bool converged_ = false;
  int rest_ = 0;   // samples before the next duel
  int pause_;      // the length of the next rest
  double credit_;  // what losing duels may still cost, in samples
  bool has_level_ = false;
  // of the champion's scores, as logarithms
  double level_ = 0;
  double last_ = 0;
  double variance_ = 0.002;  // of the difference of two samples in a row
  int strange_ = 0;          // samples in a row far from the level
  double strange_sum_ = 0;
};

}  // namespace hvdlite::engine
