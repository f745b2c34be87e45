// Plan: what becomes of a batch on a GPU: kernels before, rounds of NCCL's calls, kernels after.
// DECIDES: pure arithmetic on counts and addresses, and equal on all members but for the addresses.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "comm/batch.h"
#include "comm/nccl/channels.h"
#include "comm/nccl/grid.h"
#include "kernels/gpu.h"

namespace hvdlite::comm::nccl {

// Of the members alike, but for `me` and where it sits.
struct Context {
  int me = 0;
  int size = 1;
  bool kernels = true;  // whether kernels/gpu.h works for all members
  Grid grid = {};
};

// False: this batch is not for NCCL, and why.
bool Can(const Context& context, const Batch& batch, std::string* why);

enum class LayoutKind : uint8_t {
  kNothing,  // there are no elements
  kDirect,   // each tensor from where it lies to where it belongs, all in one group
  kPacked,   // through one buffer. Gathered and scattered: parts without gaps, a call for each
  kPadded,   // through one buffer with parts of one size, in one call, which costs the gaps
};
// The sentence for people.
std::string ExplainLayout(const Context& context, const Batch& batch);

// Calls that go out together. Before the next round they must be on the stream.
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
