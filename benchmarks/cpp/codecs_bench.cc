// How fast are the codecs on one core? Prints, per codec and size, GB/s of float32 for encoding
// (gradient and residual in), encoding that keeps what it loses as the new residual, decoding, and
// the first and the last one after the other: bytes of float32 / (seconds of encoding + seconds of
// decoding). Each figure is the best of several runs of a few milliseconds; memcpy of the same
// floats stands beside them.
//
//   benchmarks/kernels
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <vector>

#include "kernels/codec.h"
#include "kernels/cpu/codec.h"
#include "kernels/cpu/dispatch.h"

namespace {

using hvdlite::Codec;
using hvdlite::CodecSpec;
namespace kernels = hvdlite::kernels;
namespace cpu = hvdlite::kernels::cpu;

constexpr int64_t kCounts[] = {16 << 10, 256 << 10, 4 << 20};
constexpr CodecSpec kSpecs[] = {
    {Codec::kInt8, 0},        {Codec::kFp8, 0},    {Codec::kSign, 0}, {Codec::kTernary, 2.5},
    {Codec::kThreshold, 0.5}, {Codec::kQsgd, 127}, {Codec::kQsgd, 7}};

// Processor time of this thread: others may be on the processor meanwhile.
double Now() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double BestSeconds(const std::function<void()>& once) {
  double best = 1e9;
  for (int trial = 0; trial < 7; ++trial) {
    int repeats = 0;
    const double start = Now();
    double elapsed = 0;
    do {
      once();
      ++repeats;
      elapsed = Now() - start;
    } while (elapsed < 4e-3);
    best = std::min(best, elapsed / repeats);
  }
  return best;
}

std::vector<float> Values(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525 + 1013904223;
    value = static_cast<float>(state >> 8) / (1 << 24) - 0.5F;
  }
  return values;
}

void Measure(const cpu::KernelTable& table, const CodecSpec& spec, int64_t count) {
  const std::vector<float> gradient = Values(count);
  std::vector<float> residual(gradient.rbegin(), gradient.rend());
  std::vector<char> encoded(static_cast<size_t>(cpu::EncodedBytes(table, spec, count)));
  std::vector<float> back(static_cast<size_t>(count));
  const kernels::Encoded what{gradient.data(), residual.data(), 1};
  const double encode =
      BestSeconds([&] { cpu::Encode(table, spec, what, count, {1, 0}, encoded.data()); });
  const double keep = BestSeconds(
      [&] { cpu::Encode(table, spec, what, count, {1, 0}, encoded.data(), residual.data()); });
  const double decode =
      BestSeconds([&] { cpu::Decode(table, spec, encoded.data(), count, back.data(), false); });
  const double copy = BestSeconds(
      [&] { std::memcpy(back.data(), gradient.data(), 4 * static_cast<size_t>(count)); });
  const double gigabytes = 4e-9 * static_cast<double>(count);
  std::printf(
      "%-8s %-18s %8lld KiB %6.2fx  encode %6.2f  keeping %6.2f  decode %6.2f  both %6.2f  "
      "memcpy %6.2f\n",
      table.name, ToString(spec).c_str(), static_cast<long long>(4 * count >> 10),
      4.0 * static_cast<double>(count) / static_cast<double>(encoded.size()), gigabytes / encode,
      gigabytes / keep, gigabytes / decode, gigabytes / (encode + decode), gigabytes / copy);
}

}  // namespace

int main() {
  std::printf("GB/s of float32 on one core\n");
  for (const cpu::KernelTable* table : cpu::SupportedTables()) {
    for (const CodecSpec& spec : kSpecs) {
      for (const int64_t count : kCounts) Measure(*table, spec, count);
    }
  }
}
