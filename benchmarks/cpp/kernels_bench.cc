// How near to memcpy do the reductions run? Prints, per size, GB/s of memory touched (bytes read +
// bytes written), so that memcpy (1 read, 1 write), a sum of two (2, 1) and one with two
// destinations (2, 2) compare directly. Each figure is the best of several runs of a few
// milliseconds; the machines are noisy, compare within one run.
//
//   g++ -std=c++20 -O2 -Icsrc benchmarks/cpp/kernels_bench.cc <the objects of csrc/kernels> &&
//   ./a.out
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "kernels/cpu/digest.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/reduce.h"

namespace {

using hvdlite::DType;
using hvdlite::ReduceOp;
using hvdlite::SizeOf;
namespace cpu = hvdlite::kernels::cpu;

constexpr size_t kSizes[] = {4 << 10, 32 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};
constexpr int kMaxSources = 8;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double BestSeconds(const std::function<void()>& once) {
  double best = 1e9;
  for (int trial = 0; trial < 7; ++trial) {
    int repeats = 0;
    const double start = Now();
    double elapsed = 0;
    do {
      for (int i = 0; i < 4; ++i) once();
      repeats += 4;
      elapsed = Now() - start;
    } while (elapsed < 4e-3);
    best = std::min(best, elapsed / repeats);
  }
  return best;
}

struct Arrays {
  Arrays() {
    for (int i = 0; i < kMaxSources + 2; ++i) {
      // Some lines apart, so that equal offsets do not all fall into one cache set.
      char* memory = static_cast<char*>(std::aligned_alloc(4096, (17 << 20) + 4096));
      memory += 4096 / 16 * static_cast<size_t>(i % 16);
      std::memset(memory, 0, 16 << 20);
      all.push_back(memory);
    }
  }
  std::vector<char*> all;
};

void Row(const std::string& name, int touched, const std::function<void(size_t)>& run) {
  std::printf("%-34s", name.c_str());
  for (const size_t bytes : kSizes) {
    const double seconds = BestSeconds([&] { run(bytes); });
    std::printf("%9.1f", static_cast<double>(bytes) * touched / seconds * 1e-9);
    std::fflush(stdout);
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const bool all_tables = argc > 1 && std::string(argv[1]) == "all";
  Arrays arrays;
  char* const destination = arrays.all[kMaxSources];
  char* const second = arrays.all[kMaxSources + 1];
  std::vector<const void*> sources(arrays.all.begin(), arrays.all.begin() + kMaxSources);

  std::printf("%-34s", "GB/s touched; bytes per array:");
  for (const size_t bytes : kSizes) std::printf("%8zuK", bytes >> 10);
  std::printf("\n");
  Row("memcpy", 2, [&](size_t bytes) { std::memcpy(destination, sources[0], bytes); });

  std::vector<const cpu::KernelTable*> tables = cpu::SupportedTables();
  if (!all_tables) tables = {tables.back()};
  for (const cpu::KernelTable* table : tables) {
    const auto reduce = [&](DType dtype, ReduceOp op, int n, bool twice, double divisor) {
      std::string name = std::string(table->name) + ' ' + std::string(Name(dtype)) + ' ' +
                         std::string(Name(op)) + " n=" + std::to_string(n) +
                         (twice ? " twice" : "");
      if (divisor != 1.0) name += " /" + std::to_string(static_cast<int>(divisor));
      Row(name, n + (twice ? 2 : 1), [&](size_t bytes) {
        cpu::Reduce(*table, {dtype, op, 1.0, 1.0, divisor}, destination, twice ? second : nullptr,
                    sources.data(), n, static_cast<int64_t>(bytes / SizeOf(dtype)));
      });
    };
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64,
                              DType::kInt64, DType::kUInt8}) {
      reduce(dtype, ReduceOp::kSum, 2, false, 1);
      reduce(dtype, ReduceOp::kSum, 2, true, 1);
      reduce(dtype, ReduceOp::kSum, 4, false, 1);
    }
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      reduce(dtype, ReduceOp::kSum, 8, false, 1);
      reduce(dtype, ReduceOp::kAverage, 2, false, 2);
      reduce(dtype, ReduceOp::kAverage, 3, false, 3);
      reduce(dtype, ReduceOp::kMax, 2, false, 1);
    }
    reduce(DType::kInt32, ReduceOp::kAverage, 2, false, 2);
    for (const DType dtype :
         {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kFloat64}) {
      double out[3];
      Row(std::string(table->name) + ' ' + std::string(Name(dtype)) + " adasum dot", 2,
          [&](size_t bytes) {
            table->dot[static_cast<int>(dtype)](sources[0], sources[1],
                                                static_cast<int64_t>(bytes / SizeOf(dtype)), out);
          });
      Row(std::string(table->name) + ' ' + std::string(Name(dtype)) + " adasum blend", 3,
          [&](size_t bytes) {
            table->blend[static_cast<int>(dtype)](
                destination, sources[1], static_cast<int64_t>(bytes / SizeOf(dtype)), 0.5, 0.5);
          });
    }
    volatile uint64_t digest = 0;
    Row(std::string(table->name) + " digest", 1,
        [&](size_t bytes) { digest = cpu::Digest(*table, sources[0], bytes); });
  }
  return 0;
}
