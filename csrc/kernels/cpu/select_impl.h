// The pass over memory of kernels/select.h. Include only from table_<isa>.cc.
#pragma once

#include "kernels/cpu/simd.h"
#include "kernels/cpu/table.h"

namespace hvdlite::kernels::cpu::selecting {
namespace {

using VInt32 = Vector<int32_t>;
constexpr int kFloats = kVectorBytes / sizeof(float);
constexpr int kVectors = 4;  // of a stride
constexpr int kStride = kVectors * kFloats;
static_assert(kStride <= kSelectStride);

// A bit for each lane of `a` that is greater.
HVDLITE_INLINE uint64_t Greater(VInt32 a, VInt32 b) {
#if defined(__AVX512F__)
  return _mm512_cmpgt_epi32_mask(Bits<__m512i>(a), Bits<__m512i>(b));
#elif defined(__AVX2__)
  return static_cast<uint32_t>(_mm256_movemask_ps(Bits<__m256>(a > b)));
#elif defined(__SSE2__)
  return static_cast<uint32_t>(__builtin_ia32_movmskps(Bits<VFloat>(a > b)));
#else
  const VInt32 greater = a > b;
  uint64_t bits = 0;
  for (int lane = 0; lane < kFloats; ++lane)
    bits |= static_cast<uint64_t>(greater[lane] & 1) << lane;
  return bits;
#endif
}

// Past the caches, where the instruction set can; `to` is aligned.
HVDLITE_INLINE void Stream(float* to, VFloat value) {
#if defined(__AVX512F__)
  _mm512_stream_ps(to, Bits<__m512>(value));
#elif defined(__AVX2__)
  _mm256_stream_ps(to, Bits<__m256>(value));
#else
  Store(to, value);
#endif
}
// Streamed values are visible to other threads as others are.
HVDLITE_INLINE void EndStreaming() {
#if defined(__AVX2__)
  _mm_sfence();
#endif
}

HVDLITE_INLINE bool IsAligned(const float* address) {
  return reinterpret_cast<uintptr_t>(address) % kVectorBytes == 0;
}

HVDLITE_INLINE void Note(SelectArgs* args, int64_t at, uint32_t due) {
  args->candidates[args->found++] = CandidateOf(due, at);
}

// `V` is a vector, or one float; `put` stores it.
template <class Momentum, class V, class Put>
HVDLITE_INLINE V Advance(const SelectArgs& args, int64_t at, Put put) {
  V step = Load<V>(args.gradient + at);
  if constexpr (Momentum::kHas) {
    const V velocity = Load<V>(args.velocity + at);
    if constexpr (Momentum::kNesterov) {
      const V next = (velocity + step) * args.momentum;
      put(args.new_velocity + at, next);
      step = next + step;
    } else {
      step = velocity * args.momentum + step;
      put(args.new_velocity + at, step);
    }
  }
  const V due = Load<V>(args.residual + at) + step;
  put(args.new_residual + at, due);
  return due;
}

template <class Momentum>
HVDLITE_INLINE void AdvanceOne(SelectArgs* args) {
  const int64_t at = args->at++;
  const float due = Advance<Momentum, float>(
      *args, at, [](float* to, float value) __attribute__((always_inline)) { *to = value; });
  const uint32_t bits = Bits<uint32_t>(due);
  if (static_cast<int32_t>(bits & kSelectMagnitude) > args->threshold) Note(args, at, bits);
}

template <class Momentum, class Put>
HVDLITE_INLINE void AdvanceStrides(SelectArgs* args, Put put) {
  const VInt32 threshold = Splat<VInt32>(args->threshold);
  while (args->at + kStride <= args->count && args->found + kStride <= args->room) {
    const int64_t at = args->at;
    args->at += kStride;
    VFloat due[kVectors];
    uint64_t greater = 0;
#pragma GCC unroll 4
    for (int r = 0; r < kVectors; ++r) {
      due[r] = Advance<Momentum, VFloat>(*args, at + int64_t{r} * kFloats, put);
      const VInt32 magnitude = Bits<VInt32>(due[r]) & static_cast<int32_t>(kSelectMagnitude);
      greater |= Greater(magnitude, threshold) << (r * kFloats);
    }
    if (greater == 0) continue;
    uint32_t bits[kStride];
    __builtin_memcpy(bits, due, sizeof(bits));
    for (; greater != 0; greater &= greater - 1) {
      const int place = __builtin_ctzll(greater);
      Note(args, at + place, bits[place]);
    }
  }
}

template <class Momentum>
void Run(SelectArgs* args) {
  const auto has_room = [args]() __attribute__((always_inline)) {
    return args->at < args->count && args->found < args->room;
  };
  while (has_room() && !IsAligned(args->new_residual + args->at)) AdvanceOne<Momentum>(args);
  const bool aligned = !Momentum::kHas || IsAligned(args->new_velocity + args->at);
  if (args->stream && aligned && IsAligned(args->new_residual + args->at)) {
    AdvanceStrides<Momentum>(
        args, [](float* to, VFloat value) __attribute__((always_inline)) { Stream(to, value); });
    EndStreaming();
  } else {
    AdvanceStrides<Momentum>(
        args, [](float* to, VFloat value) __attribute__((always_inline)) { Store(to, value); });
  }
  if (args->at + kStride > args->count) {
    while (has_room()) AdvanceOne<Momentum>(args);
  }
}

struct NoMomentum {
  static constexpr bool kHas = false;
};
struct Classical {
  static constexpr bool kHas = true;
  static constexpr bool kNesterov = false;
};
struct Nesterovs {
  static constexpr bool kHas = true;
  static constexpr bool kNesterov = true;
};

void Select(SelectArgs* args) {
  if (args->velocity == nullptr) {
    Run<NoMomentum>(args);
  } else if (args->nesterov) {
    Run<Nesterovs>(args);
  } else {
    Run<Classical>(args);
  }
}

}  // namespace
}  // namespace hvdlite::kernels::cpu::selecting
