#include "comm/processors.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <bit>
#include <climits>
#include <cstdint>
#include <cstdio>

namespace hvdlite::comm {

std::string AllowedProcessors() {
  // A cpu_set_t ends at 1024 processors. The kernel refuses a mask that is smaller than its own.
  std::array<cpu_set_t, 8> sets{};
  if (sched_getaffinity(0, sizeof(sets), sets.data()) != 0) return "";
  std::string mask;
  for (size_t i = 0; i < sizeof(sets) * CHAR_BIT; ++i) {
    if (!CPU_ISSET_S(i, sizeof(sets), sets.data())) continue;
    mask.resize(i / 8 + 1);
    mask.back() = static_cast<char>(static_cast<uint8_t>(mask.back()) | 1U << i % 8);
  }
  return mask;
}

int ProcessorQuota() {
  FILE* const file = fopen("/sys/fs/cgroup/cpu.max", "r");
  if (file == nullptr) return 0;
  long long quota = 0, period = 0;
  // Without a limit the file has "max 100000". Then the first number is missing.
  const bool limited = fscanf(file, "%lld %lld", &quota, &period) == 2 && period > 0;
  fclose(file);
  return limited ? std::max(1, static_cast<int>(quota / period)) : 0;
}

int CountProcessors(const std::vector<std::string_view>& masks, int quota) {
  std::string all;
  for (std::string_view mask : masks) {
    if (mask.size() > all.size()) all.resize(mask.size());
    for (size_t i = 0; i < mask.size(); ++i) all[i] = static_cast<char>(all[i] | mask[i]);
  }
  int count = 0;
  for (char byte : all) count += std::popcount(static_cast<uint8_t>(byte));
  if (quota > 0) count = std::min(count, quota);
  return std::max(count, 1);
}

}  // namespace hvdlite::comm
