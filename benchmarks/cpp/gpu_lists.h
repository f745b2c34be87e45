// What the benchmarks on a GPU have in common: the device, lists of tensors, as lines of text, and
// seconds of what a device does.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "device/gpu.h"
#include "kernels/gpu.h"

namespace hvdlite::bench {

constexpr int kNoGpu = 3;          // the exit code where there is nothing to measure on
constexpr size_t kBoundary = 512;  // where frameworks' tensors begin

[[noreturn]] inline void Die(const Status& status, int code = 1) {
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::exit(code);
}
inline void Check(const Status& status) {
  if (!status.ok()) Die(status);
}

struct List {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> elements;

  size_t bytes(size_t i) const { return static_cast<size_t>(elements[i]) * SizeOf(dtype); }
  size_t bytes() const {
    size_t sum = 0;
    for (size_t i = 0; i < elements.size(); ++i) sum += bytes(i);
    return sum;
  }
};

// A tensor's bytes and the gap behind it.
inline size_t RoomOf(const List& list, size_t i) {
  return (list.bytes(i) + kBoundary - 1) / kBoundary * kBoundary;
}

// NAME DTYPE ELEMENTS ELEMENTS ...
inline bool Parse(const std::string& line, List* list) {
  std::istringstream words(line);
  std::string dtype;
  if (!(words >> list->name >> dtype)) return false;
  for (int i = 0; i < kDTypeCount; ++i) {
    if (Name(static_cast<DType>(i)) == dtype) list->dtype = static_cast<DType>(i);
  }
  for (int64_t n = 0; words >> n;) list->elements.push_back(n);
  return !list->elements.empty();
}

inline void EachList(const std::function<void(const List&)>& measure) {
  for (std::string line; std::getline(std::cin, line);) {
    List list;
    if (!Parse(line, &list)) Die(Status::InvalidArgument("not a list: " + line));
    measure(list);
  }
}

// The first GPU, on which kernels of this build run.
inline std::shared_ptr<device::Gpu> WithKernels(const std::string& driver_library) {
  std::shared_ptr<const device::Driver> driver;
  Status status = device::LoadDriver(driver_library, &driver);
  if (!status.ok()) Die(status, kNoGpu);
  std::shared_ptr<device::Gpu> gpu;
  Check(device::Gpu::Open(driver, 0, &gpu));
  status = kernels::Usable(gpu.get());
  if (!status.ok()) Die(status, kNoGpu);
  return gpu;
}

inline void Synchronize(device::Gpu* gpu) {
  const device::Gpu::Current current(*gpu);
  Check(gpu->driver().Check(gpu->driver().StreamSynchronize(gpu->stream()), "waiting for the GPU"));
}

// The median of several series: what one put(0), put(1), ... put(different - 1), put(0), ... takes,
// the device's work included.
inline double SecondsOf(const std::function<void(size_t)>& put, size_t different,
                        const std::function<void()>& synchronize) {
  const auto series = [&](int times) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i) put(static_cast<size_t>(i) % different);
    synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  series(static_cast<int>(different));
  const double once = series(5) / 5;
  const int times = std::max(5, static_cast<int>(0.02 / once));
  std::vector<double> seconds;
  for (int i = 0; i < 9; ++i) seconds.push_back(series(times) / times);
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace hvdlite::bench
