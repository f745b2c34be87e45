// What the tests of all codecs share: random tensors, and one way through a codec on one
// instruction set.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cpu/codec.h"
#include "kernels/cpu/dispatch.h"
#include "testing/normal.h"

namespace hvdlite::kernels {

using Floats = std::vector<float>;
using Coded = std::vector<uint8_t>;
using testing::Normal;

inline Coded EncodeOn(const cpu::KernelTable& table, const CodecSpec& spec, const Encoded& what,
                      size_t count, const Draws& draws = {}, float* lost = nullptr) {
  const auto n = static_cast<int64_t>(count);
  constexpr uint8_t kGuard = 0xA5;
  const auto bytes = static_cast<size_t>(cpu::EncodedBytes(table, spec, n));
  Coded coded(bytes + 64, kGuard);
  cpu::Encode(table, spec, what, n, draws, coded.data(), lost);
  // Nothing is written beyond the size that the formula gives.
  if (std::count(coded.begin() + static_cast<long>(bytes), coded.end(), kGuard) != 64)
    coded.clear();
  coded.resize(std::min(coded.size(), bytes));
  return coded;
}

inline Floats DecodeOn(const cpu::KernelTable& table, const CodecSpec& spec, const Coded& coded,
                       size_t count) {
  Floats values(count);
  cpu::Decode(table, spec, coded.data(), static_cast<int64_t>(count), values.data(), false);
  return values;
}

inline Floats ThereAndBack(const CodecSpec& spec, const Floats& values, const Draws& draws = {}) {
  const cpu::KernelTable& table = cpu::ActiveTable();
  const Coded coded = EncodeOn(table, spec, {values.data(), nullptr, 1}, values.size(), draws);
  return DecodeOn(table, spec, coded, values.size());
}

// The means of `draws` ways through the codec with different keys, and the standard deviation that
// the values of one element have.
struct Drawn {
  std::vector<double> mean, deviation;
};
inline Drawn Draw(const CodecSpec& spec, const Floats& values, int draws) {
  std::vector<double> sum(values.size()), squares(values.size());
  for (int i = 0; i < draws; ++i) {
    const Floats back = ThereAndBack(spec, values, {static_cast<uint64_t>(i), 0});
    for (size_t k = 0; k < back.size(); ++k) {
      sum[k] += back[k];
      squares[k] += static_cast<double>(back[k]) * back[k];
    }
  }
  Drawn drawn;
  for (size_t k = 0; k < values.size(); ++k) {
    drawn.mean.push_back(sum[k] / draws);
    const double variance = squares[k] / draws - drawn.mean[k] * drawn.mean[k];
    drawn.deviation.push_back(std::sqrt(std::max(0.0, variance)));
  }
  return drawn;
}

}  // namespace hvdlite::kernels
