#include "engine/tune/setting.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace hvdlite::engine {
namespace {

struct DialFacts {
  std::string_view name;
  double step;  // the factor of one notch
  DialRange widest;
};

constexpr DialFacts kDials[kDialCount] = {
    {"cycle_time", 2, {-4, 4}},      {"fusion_threshold", 4, {-4, 0}},
    {"net_byte_cost", 4, {-4, 5}},   {"shm_small_bytes", 2, {-3, 3}},
    {"shm_chunk_bytes", 2, {-3, 0}},
};

const DialFacts& Facts(Dial dial) {
  return kDials[static_cast<size_t>(dial)];
}

// In a packed number a notch takes four bits. This one stands for 0.
constexpr int kMiddle = 8;

}  // namespace

std::string Digits(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", value);
  return text;
}

DialRange WidestRange(Dial dial) {
  return Facts(dial).widest;
}

std::string_view Name(Dial dial) {
  return Facts(dial).name;
}

uint64_t Setting::Pack() const {
  uint64_t packed = 0;
  for (int d = kDialCount - 1; d >= 0; --d)
    packed = packed << 4 | static_cast<uint64_t>(at(static_cast<Dial>(d)) + kMiddle);
  return packed;
}

bool Setting::Unpack(uint64_t packed, Setting* out) {
  for (int d = 0; d < kDialCount; ++d, packed >>= 4) {
    const auto dial = static_cast<Dial>(d);
    const int notch = static_cast<int>(packed & 15) - kMiddle;
    const DialRange range = WidestRange(dial);
    if (notch < range.lowest || notch > range.highest) return false;
    out->at(dial) = notch;
  }
  return packed == 0;
}

double Setting::Factor(Dial dial) const {
  return std::pow(Facts(dial).step, at(dial));
}

double Setting::CycleTimeMs(const Config& config) const {
  return config.cycle_time * Factor(Dial::kWindow);
}

int64_t Setting::FusionThreshold(const Config& config) const {
  return static_cast<int64_t>(static_cast<double>(config.fusion_threshold) * Factor(Dial::kFusion));
}

std::string ValueOf(Dial dial, const Setting& setting, const Config& config) {
  const double factor = setting.Factor(dial);
  switch (dial) {
    case Dial::kWindow: return Digits(setting.CycleTimeMs(config)) + " ms";
    case Dial::kFusion:
      return Digits(static_cast<double>(setting.FusionThreshold(config)) / (1 << 20)) + " MB";
    case Dial::kByteCost: return Digits(factor) + " times the default";
    case Dial::kSmall:
      return Digits(static_cast<double>(config.shm_small_bytes) * factor) + " bytes";
    case Dial::kChunk:
      return Digits(static_cast<double>(config.shm_chunk_bytes) * factor) + " bytes";
  }
  return "";
}

std::string Setting::Describe(const Config& config, const DialRanges& ranges) const {
  std::string text;
  for (int d = 0; d < kDialCount; ++d) {
    if (ranges[static_cast<size_t>(d)].fixed()) continue;
    const auto dial = static_cast<Dial>(d);
    text +=
        (text.empty() ? "" : ", ") + std::string(Name(dial)) + " " + ValueOf(dial, *this, config);
  }
  return text;
}

Status Fix(const std::string& names, DialRanges* ranges) {
  std::string all;
  for (const DialFacts& facts : kDials) all += (all.empty() ? "" : ", ") + std::string(facts.name);
  for (size_t at = 0; at < names.size();) {
    const size_t end = std::min(names.find(',', at), names.size());
    std::string name = names.substr(at, end - at);
    name.erase(std::remove(name.begin(), name.end(), ' '), name.end());
    at = end + 1;
    if (name.empty()) continue;
    const auto found = std::find_if(std::begin(kDials), std::end(kDials),
                                    [&](const DialFacts& facts) { return facts.name == name; });
    if (found == std::end(kDials)) {
      return Status::InvalidArgument("HVDLITE_AUTOTUNE_KEEP names '" + name +
                                     "', which autotuning does not change. It changes " + all +
                                     ".");
    }
    (*ranges)[static_cast<size_t>(found - std::begin(kDials))] = {};
  }
  return Status::Ok();
}

}  // namespace hvdlite::engine
