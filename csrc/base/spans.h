// Spans: the total time that a number of spans cover. Time that several of them cover counts once.
//
// Spans are added in the order of their ends. The total is exact as long as a span reaches back
// over at most kKept earlier gaps. Beyond that the oldest spans are forgotten, and their time may
// count twice.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>

#include "base/clock.h"

namespace hvdlite {

class Spans {
 public:
  void Add(Nanos begin, Nanos end) {
    if (end <= begin) return;
    Span merged{begin, end};
    while (!spans_.empty() && spans_.back().end >= merged.begin) {
      merged.begin = std::min(merged.begin, spans_.back().begin);
      merged.end = std::max(merged.end, spans_.back().end);
      covered_ -= spans_.back().end - spans_.back().begin;
      spans_.pop_back();
    }
    covered_ += merged.end - merged.begin;
    spans_.push_back(merged);
    if (spans_.size() > kKept) spans_.pop_front();
  }
  Nanos covered() const { return covered_; }

 private:
  struct Span {
    Nanos begin, end;
  };
  static constexpr size_t kKept = 64;
  std::deque<Span> spans_;  // disjoint, ascending
  Nanos covered_ = 0;
};

}  // namespace hvdlite
