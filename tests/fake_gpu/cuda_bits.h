// CUDA's language in that of this processor: what does not depend on how many threads there are.
#pragma once

#include <cmath>
#include <cstring>

#define __device__

// Elements of every type are moved as these.
struct __attribute__((may_alias, aligned(16))) uint4 {
  unsigned x, y, z, w;
};

inline float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
inline unsigned __float_as_uint(float value) {
  if (value != value) return 0x7fffffff;  // what a GPU computes when it computes a NaN
  unsigned bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
inline float __fsqrt_rn(float value) {
  return std::sqrt(value);
}
inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}
