// Plan: the work of a batch on a GPU: kernels before, rounds of NCCL's calls, kernels after.
// DECIDES: pure arithmetic on counts and addresses. All members decide alike, except for the
// addresses.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "comm/batch.h"
#include "comm/nccl/channels.h"
#include "comm/nccl/grid.h"
#include "kernels/gpu.h"

namespace hvdlite::comm::nccl {

// The same on all members, except for `me` and its position in the grid.
struct Context {
  int me = 0;
  int size = 1;
  bool kernels = true;  // whether kernels/gpu.h works for all members
  Grid grid = {};
};

// Whether NCCL can perform this batch. If not, *why says the reason.
bool Can(const Context& context, const Batch& batch, std::string* why);

enum class LayoutKind : uint8_t {
  kNothing,  // there are no elements
  kDirect,   // each tensor from its input to its output, all in one group
  kPacked,   // through one buffer. Gathered and scattered: parts without gaps, one call for each
  kPadded,   // through one buffer with parts of equal size, in one call, at the cost of gaps
};
// The choice as a sentence.
std::string ExplainLayout(const Context& context, const Batch& batch);

// Calls that are made together. They must be on the stream before the next round.
struct Round {
  Among among = Among::kAll;
  std::vector<Call> calls;
};

struct Plan {
  std::vector<kernels::Move> before;
  kernels::Scaling scale_before;
  std::vector<Round> rounds;
  std::vector<kernels::Move> after;
  kernels::Scaling scale_after;
};

}  // namespace hvdlite::comm::nccl
