// How fast is selecting on one core? Prints, per method, density and size, the nanoseconds of an
// element and the GB/s of what is read and written. memcpy of as many floats stands beside them:
// two arrays, where topk has three and dgc five. Each figure is the best of several runs.
//
//   benchmarks/kernels select_bench
#include "kernels/select.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/select.h"

namespace {

namespace kernels = hvdlite::kernels;
namespace cpu = hvdlite::kernels::cpu;

// Processor time of this thread: others may be on the processor meanwhile.
double Now() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

template <class Once>
double BestSeconds(const Once& once) {
  double best = 1e9;
  for (int trial = 0; trial < 7; ++trial) {
    const double start = Now();
    once();
    best = std::min(best, Now() - start);
  }
  return best;
}

std::vector<float> Normal(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

void Line(const char* what, const char* set, int64_t count, double density, double seconds,
          int arrays) {
  const auto elements = static_cast<double>(count);
  std::printf("%-7s %-8s %9lld elements  density %-6g %6.3f ns  %6.1f GB/s\n", what, set,
              static_cast<long long>(count), density, 1e9 * seconds / elements,
              1e-9 * arrays * sizeof(float) * elements / seconds);
}

}  // namespace

int main() {
  for (const int64_t count : {int64_t{16} << 10, int64_t{2359296}, int64_t{25557032}}) {
    const std::vector<float> gradient = Normal(count, 1), velocity = Normal(count, 2);
    const std::vector<float> residual = Normal(count, 3);
    std::vector<float> after(gradient.size()), speed(gradient.size()), values(gradient.size());
    std::vector<int32_t> positions(gradient.size());
    Line("memcpy", "", count, 1, BestSeconds([&] {
           std::memcpy(after.data(), gradient.data(), gradient.size() * sizeof(float));
         }),
         2);
    for (const double density : {0.001, 0.01, 0.25}) {
      kernels::Selection selection;
      selection.count = count;
      selection.gradient = gradient.data();
      selection.residual = residual.data();
      selection.masking = true;
      selection.momentum = 0.9F;
      selection.new_residual = after.data();
      selection.new_velocity = speed.data();
      selection.taken = static_cast<int64_t>(std::lround(density * static_cast<double>(count)));
      selection.values = values.data();
      selection.positions = positions.data();
      for (const cpu::KernelTable* table : cpu::SupportedTables()) {
        selection.velocity = nullptr;
        Line("topk", table->name, count, density,
             BestSeconds([&] { cpu::Select(*table, selection, count); }), 3);
        selection.velocity = velocity.data();
        Line("dgc", table->name, count, density,
             BestSeconds([&] { cpu::Select(*table, selection, count); }), 5);
      }
      const kernels::Pairs pairs = {values.data(), positions.data(), selection.taken};
      Line("spread", "", count, density, BestSeconds([&] {
             std::fill(after.begin(), after.end(), 0.0F);
             kernels::AddPairs({pairs}, 0.5F, after.data());
           }),
           1);
    }
  }
  return 0;
}
