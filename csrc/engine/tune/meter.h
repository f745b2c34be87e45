// Meter: measures how many bytes are reduced in each second in which operations are in flight, from
// their submission to their end. So the time of a program's own work does not count.
//
// A sample holds whole steps: it ends when an operation ends for the (steps + 1)th time under the
// same name. Programs whose names never return are cut by time. Pure: the caller passes the times.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <unordered_map>

#include "base/clock.h"
#include "base/spans.h"

namespace hvdlite::engine {

class Meter {
 public:
  struct Options {
    int steps = 10;
    // The time in flight: a shorter sample goes on with more steps, a longer one is cut.
    Nanos at_least = 50 * kMillisecond;
    Nanos at_most = 10 * kSecond;
  };
  explicit Meter(const Options& options) : options_(options) {}

  // Begins a sample. Operations that were submitted before `now` belong to none.
  void Begin(Nanos now) {
    since_ = now;
    bytes_ = 0;
    spans_ = {};
    ends_.clear();
  }
  // An operation has ended. Returns true if the sample is complete. It then does not hold this
  // operation, unless it was cut.
  bool Add(std::string_view name, Nanos submitted, Nanos done, int64_t bytes) {
    if (submitted < since_) return false;
    const bool enough = spans_.covered() >= options_.at_least;
    if (enough && spans_.covered() >= options_.at_most) return true;
    // A program without names that return must not fill the memory.
    if (ends_.size() < kMostNames) {
      const int before = ends_[std::hash<std::string_view>()(name)]++;
      if (enough && before >= options_.steps) return true;
    }
    bytes_ += bytes;
    spans_.Add(submitted, done);
    return false;
  }
  // Bytes per second of the sample; 0 if it holds nothing.
  double score() const {
    const Nanos covered = spans_.covered();
    if (covered == 0) return 0;
    return static_cast<double>(bytes_) * static_cast<double>(kSecond) /
           static_cast<double>(covered);
  }

 private:
  static constexpr size_t kMostNames = 1 << 16;

  const Options options_;
  Nanos since_ = 0;
  int64_t bytes_ = 0;
  Spans spans_;
  std::unordered_map<size_t, int> ends_;  // by the name's hash
};

}  // namespace hvdlite::engine
