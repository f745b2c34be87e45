// Selection with memory: what a sparse compression does to a gradient on its rank, and to what all
// ranks have sent.
//
// All instruction sets give the same bits.
//
// Cost: each source is read once and each result written once, at the speed of memory, where few
// elements are taken (benchmarks/kernels). Thread-safety: pure functions.
#pragma once

#include <cstdint>

namespace hvdlite::kernels {

//   without momentum   due = residual + gradient
//   with momentum m    velocity = velocity * m + gradient, due = residual + velocity
//   with Nesterov's    velocity = (velocity + gradient) * m, due = residual + (velocity + gradient)
//
// The `taken` elements of `due` that are greatest in magnitude are sent. Of equal ones the first
// are taken; NaN is greater than all numbers. What is taken leaves zeros in the new memory.
struct Selection {
  int64_t count = 0;  // below 2^31
  const float* gradient = nullptr;
  const float* residual = nullptr;
  const float* velocity = nullptr;  // null: no momentum
  float momentum = 0;
  bool nesterov = false;
  bool masking = false;  // whether the velocity of what is taken becomes zero, too

  // The new memory; it does not overlap the sources.
  float* new_residual = nullptr;
  float* new_velocity = nullptr;

  int64_t taken = 0;  // from 1 to `count`
  float* values = nullptr;
  int32_t* positions = nullptr;
};

void Select(const Selection& selection);

// Elements with their positions. A position may occur several times.
struct Pairs {
  const float* values = nullptr;
  const int32_t* positions = nullptr;
  int64_t count = 0;
};

// Writes to each of `count` elements the sum of its pairs, added in their order, times `factor`;
// zeros elsewhere. False: a position is not below `count`, and nothing has been written.
bool Spread(const Pairs& pairs, float factor, int64_t count, float* output);

}  // namespace hvdlite::kernels
