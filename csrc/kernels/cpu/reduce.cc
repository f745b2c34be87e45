#include "kernels/cpu/reduce.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/integer_scale.h"

namespace hvdlite::kernels::cpu {
namespace {

Combine CombineOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kProduct: return Combine::kProduct;
    case ReduceOp::kMin: return Combine::kMin;
    case ReduceOp::kMax: return Combine::kMax;
    case ReduceOp::kAverage:
    case ReduceOp::kSum:
    case ReduceOp::kAdasum: break;
  }
  return Combine::kSum;
}

using Kernels = KernelTable::ReduceKernel[kDTypeCount][kCombineCount][kScalingCount];

KernelTable::ReduceKernel KernelOf(const Kernels& kernels, DType dtype, Combine combine,
                                   Scaling scaling) {
  return kernels[static_cast<int>(dtype)][static_cast<int>(combine)][static_cast<int>(scaling)];
}

// The reciprocal of a power of two is exact, and multiplying by it rounds as dividing does. The
// range is that of float32's normal numbers whose reciprocals are normal as well; no real divisor
// lies beyond it.
bool IsModeratePowerOfTwo(double value) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const bool power = (bits & 0xfffffffffffffull) == 0;
  return power && value >= 0x1p-125 && value <= 0x1p125;
}

// Replaces any NaN by the default NaN, so that no payload of a factor meets the rounding to
// bfloat16 (half_simd.h).
double WithoutPayload(double factor) {
  return std::isnan(factor) ? std::numeric_limits<double>::quiet_NaN() : factor;
}

// Floating types: everything happens in registers, in one pass.
void RunFloating(const Kernels& kernels, DType dtype, Combine combine, ReduceArgs args) {
  for (double* factor : {&args.prescale, &args.divisor, &args.postscale}) {
    *factor = WithoutPayload(*factor);
  }
  // The kernels compute in the accumulator's type, so the divisor must be a power of two in that
  // type.
  if (dtype != DType::kFloat64)
    args.divisor = static_cast<double>(static_cast<float>(args.divisor));
  Scaling scaling = Scaling::kAll;
  if (args.prescale == 1.0) {
    if (args.postscale == 1.0 && IsModeratePowerOfTwo(args.divisor)) {
      args.postscale = 1.0 / args.divisor;
      args.divisor = 1.0;
    }
    if (args.divisor == 1.0) scaling = args.postscale == 1.0 ? Scaling::kNone : Scaling::kFinal;
  }
  KernelOf(kernels, dtype, combine, scaling)(args);
}

// Bool, and integers without a scaling step in between.
void RunUnscaled(const KernelTable& table, DType dtype, Combine combine, void* destination,
                 void* second, const void* const* sources, int n, size_t bytes) {
  ReduceArgs args;
  args.destination = destination;
  args.second = second;
  args.sources = sources;
  args.n = n;
  args.bytes = bytes;
  KernelOf(table.reduce, dtype, combine, Scaling::kNone)(args);
}

void FinishIntegers(const ReduceSpec& spec, void* data, int64_t count) {
  if (spec.divisor != 1.0) DivideIntegers(spec.dtype, data, data, count, spec.divisor);
  if (spec.postscale != 1.0) MultiplyIntegers(spec.dtype, data, data, count, spec.postscale);
}

// Scaled integers go block by block through the L1 cache. The sum is built in a block of its own,
// because the destination may be a source that is still to be read.
void ReduceScaledIntegers(const KernelTable& table, const ReduceSpec& spec, void* destination,
                          void* second, const void* const* sources, int n, int64_t count) {
  constexpr size_t kBlockBytes = 4096;
  alignas(64) char sum[kBlockBytes], scaled[kBlockBytes];
  const Combine combine = CombineOf(spec.op);
  const size_t bytes = static_cast<size_t>(count) * SizeOf(spec.dtype);
  for (size_t at = 0; at < bytes; at += kBlockBytes) {
    const size_t block = std::min(kBlockBytes, bytes - at);
    const int64_t elements = static_cast<int64_t>(block / SizeOf(spec.dtype));
    for (int k = 0; k < n; ++k) {
      const char* source = static_cast<const char*>(sources[k]) + at;
      char* const to = k == 0 ? sum : scaled;
      if (spec.prescale != 1.0) {
        MultiplyIntegers(spec.dtype, source, to, elements, spec.prescale);
        source = to;
      }
      const void* pair[2] = {sum, source};
      if (k > 0) {
        RunUnscaled(table, spec.dtype, combine, sum, nullptr, pair, 2, block);
      } else if (source != sum) {
        std::memcpy(sum, source, block);
      }
    }
    FinishIntegers(spec, sum, elements);
    std::memcpy(static_cast<char*>(destination) + at, sum, block);
    if (second != nullptr) std::memcpy(static_cast<char*>(second) + at, sum, block);
  }
}

}  // namespace

void Reduce(const KernelTable& table, const ReduceSpec& spec, void* destination, void* second,
            const void* const* sources, int n, int64_t count) {
  if (count <= 0) return;
  const size_t bytes = static_cast<size_t>(count) * SizeOf(spec.dtype);
  const Combine combine = CombineOf(spec.op);
  if (IsFloating(spec.dtype)) {
    RunFloating(
        table.reduce, spec.dtype, combine,
        {destination, second, sources, n, bytes, spec.prescale, spec.divisor, spec.postscale});
    return;
  }
  const bool scaled = spec.prescale != 1.0 || spec.divisor != 1.0 || spec.postscale != 1.0;
  if (scaled && spec.dtype != DType::kBool) {
    ReduceScaledIntegers(table, spec, destination, second, sources, n, count);
  } else {
    RunUnscaled(table, spec.dtype, combine, destination, second, sources, n, bytes);
  }
}

void ReduceToFloat(const KernelTable& table, const ReduceSpec& spec, float* destination,
                   const void* const* sources, int n, int64_t count) {
  if (count <= 0) return;
  const size_t bytes = static_cast<size_t>(count) * SizeOf(spec.dtype);
  RunFloating(
      table.reduce_wide, spec.dtype, CombineOf(spec.op),
      {destination, nullptr, sources, n, bytes, spec.prescale, spec.divisor, spec.postscale});
}

void RoundFromFloat(const KernelTable& table, DType dtype, void* destination, const float* source,
                    int64_t count) {
  if (count <= 0) return;
  const void* const sources[1] = {source};
  ReduceArgs args;
  args.destination = destination;
  args.second = nullptr;
  args.sources = sources;
  args.n = 1;
  args.bytes = static_cast<size_t>(count) * sizeof(float);
  table.round[static_cast<int>(dtype)](args);
}

void Scale(const KernelTable& table, DType dtype, void* data, int64_t count, double factor) {
  if (factor == 1.0) return;
  ReduceSpec spec;
  spec.dtype = dtype;
  spec.postscale = factor;
  Finish(table, spec, data, count);
}

void Finish(const KernelTable& table, const ReduceSpec& spec, void* data, int64_t count) {
  if (count <= 0 || spec.dtype == DType::kBool) return;
  if (spec.divisor == 1.0 && spec.postscale == 1.0) return;
  if (!IsFloating(spec.dtype)) {
    FinishIntegers(spec, data, count);
    return;
  }
  const size_t bytes = static_cast<size_t>(count) * SizeOf(spec.dtype);
  const void* const sources[1] = {data};
  RunFloating(table.reduce, spec.dtype, Combine::kSum,
              {data, nullptr, sources, 1, bytes, 1.0, spec.divisor, spec.postscale});
}

}  // namespace hvdlite::kernels::cpu
