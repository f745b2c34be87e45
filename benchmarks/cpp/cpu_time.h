// The processor time of a benchmark.
#pragma once

#include <sys/resource.h>

// Of this process so far: what a busy machine changes least.
inline double CpuMicros() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto micros = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_usec);
  };
  return micros(used.ru_utime) + micros(used.ru_stime);
}
