// Selection with memory: what a sparse compression does to a gradient on its rank, and to what all
// ranks have sent.
//
// All instruction sets give the same bits.
//
// Cost: each source is read once and each result written once, at the speed of memory, where few
// elements are taken (benchmarks/kernels). Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

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

  float* cleared = nullptr;  // becomes zeros; may be the gradient. Null: nothing does

  int64_t taken = 0;  // from 1 to `count`
  float* values = nullptr;
  int32_t* positions = nullptr;
};

void Select(const Selection& selection);

// The same in stretches of tens of microseconds.
class Selector {
 public:
  class State;

  explicit Selector(const Selection& selection);
  ~Selector();
  // Selects from one more stretch. True: the selection is done.
  bool Step();

 private:
  const std::unique_ptr<State> state_;
};

// Elements with their positions. A position may occur several times.
struct Pairs {
  const float* values = nullptr;
  const int32_t* positions = nullptr;
  int64_t count = 0;
};

// Whether all positions are those of a tensor of `count` elements.
bool AreInside(const Pairs& pairs, int64_t count);

// Adds the pairs of one list after the other to zeros, and multiplies the sums by `factor`. All
// positions are inside.
void AddPairs(const std::vector<Pairs>& lists, float factor, float* zeros);

}  // namespace hvdlite::kernels
