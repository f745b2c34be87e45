#include "kernels/digest.h"

#include <cstring>

#include "kernels/cpu/digest.h"
#include "kernels/cpu/dispatch.h"

namespace hvdlite::kernels {
namespace {

constexpr uint64_t kFactor = 0x9E3779B97F4A7C15;  // odd

// One to one in each of its arguments.
uint64_t Absorb(uint64_t digest, uint64_t word) {
  digest = (digest ^ word) * kFactor;
  return digest ^ (digest >> 32);
}

}  // namespace

uint64_t cpu::Digest(const KernelTable& table, const void* data, size_t bytes) {
  uint32_t lanes[kDigestLanes];
  for (int i = 0; i < kDigestLanes; ++i) lanes[i] = static_cast<uint32_t>(i + 1) * kDigestFactor;
  constexpr size_t kStripe = sizeof(lanes);
  const size_t whole = bytes / kStripe;
  table.digest(data, whole, lanes);
  if (const size_t rest = bytes % kStripe; rest > 0) {
    char last[kStripe] = {};  // the length, below, tells zeros from nothing
    std::memcpy(last, static_cast<const char*>(data) + whole * kStripe, rest);
    table.digest(last, 1, lanes);
  }
  uint64_t digest = Absorb(0, bytes);
  for (int i = 0; i < kDigestLanes; i += 2)
    digest = Absorb(digest, lanes[i] | uint64_t{lanes[i + 1]} << 32);
  return digest;
}

uint64_t Digest(const void* data, size_t bytes) {
  return cpu::Digest(cpu::ActiveTable(), data, bytes);
}

}  // namespace hvdlite::kernels
