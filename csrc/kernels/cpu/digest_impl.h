// The lanes of a digest. Include only from table_<isa>.cc.
#pragma once

#include "kernels/cpu/simd.h"
#include "kernels/cpu/table.h"

namespace hvdlite::kernels::cpu {
namespace {

// The words of a stripe change one lane each. A step is one to one in the lane and in the word. The
// shift brings high bits down: a multiplication alone would leave the highest bit where it is, and
// two flipped signs would cancel out.
void DigestStripes(const void* data, size_t stripes, uint32_t lanes[kDigestLanes]) {
  constexpr size_t kLaneBytes = kDigestLanes * sizeof(uint32_t);
  constexpr size_t kVectors = kLaneBytes / kVectorBytes;
  const VUint32 factor = Splat<VUint32>(kDigestFactor);
  const char* from = static_cast<const char*>(data);
  VUint32 state[kVectors];
  constexpr size_t kLanesOfVector = kVectorBytes / sizeof(uint32_t);
  for (size_t i = 0; i < kVectors; ++i) state[i] = Load<VUint32>(lanes + i * kLanesOfVector);
  for (size_t stripe = 0; stripe < stripes; ++stripe, from += kLaneBytes) {
    for (size_t i = 0; i < kVectors; ++i) {
      const VUint32 mixed = state[i] ^ Load<VUint32>(from + i * kVectorBytes);
      state[i] = (mixed ^ (mixed >> 15)) * factor;
    }
  }
  for (size_t i = 0; i < kVectors; ++i) Store(lanes + i * kLanesOfVector, state[i]);
}

}  // namespace
}  // namespace hvdlite::kernels::cpu
