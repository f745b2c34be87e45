// Setting: what autotuning changes, as notches away from the configuration. A notch of 0 is what
// the configuration says, on every rank, so the setting without notches is the default.
//
// No dial changes a bit of a result: batches, chunks and the choice between algorithms of one
// communicator never do (comm/choose.h, comm/shm/allreduce.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/config.h"
#include "base/status.h"

namespace hvdlite::engine {

enum class Dial : uint8_t {
  kWindow,    // how long the background thread gathers submissions
  kFusion,    // the largest batch
  kByteCost,  // of TCP, beside a message: the choice between algorithms is based on it
  kSmall,     // up to which size ranks of a host exchange tensors whole
  kChunk,     // the chunks in which large tensors go through shared memory
};
constexpr int kDialCount = 5;

struct DialRange {
  int lowest = 0;
  int highest = 0;
  bool fixed() const { return lowest == highest; }
};
using DialRanges = std::array<DialRange, kDialCount>;

// The widest range of a dial.
DialRange WidestRange(Dial dial);
// The name in logs and files: the knob's, if it is one.
std::string_view Name(Dial dial);

struct Setting {
  std::array<int, kDialCount> notches{};

  int& at(Dial dial) { return notches[static_cast<size_t>(dial)]; }
  int at(Dial dial) const { return notches[static_cast<size_t>(dial)]; }
  bool is_default() const { return *this == Setting(); }
  bool operator==(const Setting& other) const = default;

  // The number by which the setting travels to all ranks.
  uint64_t Pack() const;
  // False if no rank would send this number.
  static bool Unpack(uint64_t packed, Setting* out);

  // What the notch multiplies the configured value by.
  double Factor(Dial dial) const;
  // The values that result from the configuration.
  double CycleTimeMs(const Config& config) const;
  int64_t FusionThreshold(const Config& config) const;
  // "cycle_time_ms=4 fusion_threshold_mb=32": the dials that are not fixed.
  std::string Describe(const Config& config, const DialRanges& ranges) const;
};

// The number with six digits at most.
std::string Digits(double value);
// The value of a dial in words: "4 ms".
std::string ValueOf(Dial dial, const Setting& setting, const Config& config);
// Fixes the dials that `names` lists, separated by commas. kInvalidArgument for other names.
Status Fix(const std::string& names, DialRanges* ranges);

}  // namespace hvdlite::engine
