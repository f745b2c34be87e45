// Elements on the device: conversion of 16-bit floats to float32 and back, and 16 bytes of elements
// as one load or store.
#pragma once

#ifndef __CUDACC__
#include "base/half.h"  // the tests compile these kernels for the processor
#endif

namespace hvdlite::kernels::cuda {

// Element types: the stored type, the type for scaling, and the type for blending in Adasum.
struct Float32 {
  using Stored = float;
  using Computed = float;
  using Blended = double;
  static __device__ float Widen(float value) { return value; }
  static __device__ float Narrow(float value) { return value; }
  static __device__ float Narrow(double value) { return static_cast<float>(value); }
};

struct Float64 {
  using Stored = double;
  using Computed = double;
  using Blended = double;
  static __device__ double Widen(double value) { return value; }
  static __device__ double Narrow(double value) { return value; }
};

struct Float16 {
  using Stored = unsigned short;
  using Computed = float;
  using Blended = float;
  static __device__ float Widen(Stored bits) {
#ifdef __CUDACC__
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#else
    return HalfToFloat(bits);
#endif
  }
  static __device__ Stored Narrow(float value) {
#ifdef __CUDACC__
    Stored bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    return FloatToHalf(value);
#endif
  }
};

struct BFloat16 {
  using Stored = unsigned short;
  using Computed = float;
  using Blended = float;
  static __device__ float Widen(Stored bits) {
    return __uint_as_float(static_cast<unsigned>(bits) << 16);
  }
  static __device__ Stored Narrow(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    Stored rounded;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(value));
    return value != value ? static_cast<Stored>(0x7fc0u) : rounded;
#else
    const unsigned bits = __float_as_uint(value);
    // A NaN of the device has all bits set. Rounded like a number it would become zero.
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fc0u;
    return static_cast<Stored>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#endif
  }
};

// The elements that one instruction loads or stores.
template <class Stored>
union Vector {
  static constexpr int kElements = 16 / sizeof(Stored);
  uint4 raw;
  Stored at[kElements];
};

// The number of elements before the first 16-byte boundary.
template <class Stored>
__device__ int BeforeBoundary(const Stored* address) {
  const unsigned long long past = reinterpret_cast<unsigned long long>(address) % 16;
  return static_cast<int>((16 - past) % 16 / sizeof(Stored));
}

// Returns the last of `count` entries whose first piece is not after `piece`.
inline __device__ int EntryOf(const unsigned* first_piece, int count, unsigned piece) {
  int low = 0, high = count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (first_piece[middle] <= piece) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace hvdlite::kernels::cuda
