// Adasum: adasum(a, b) = (1 - a.b / 2|a|²) a + (1 - a.b / 2|b|²) b, combined pairwise, per tensor.
//
//   halving     step s: exchange halves with the member at distance 2^s; a is the vector of the
//               lower group of 2^s members, b that of the upper one; both are spread over the group
//                 1. dot products of my part of each tensor
//                 2. summed over the 2^(s+1) members that share a and b: recursive doubling,
//                    24 bytes per tensor
//                 3. combine my part
//   doubling    the same way back with finished parts
//
// Cost: 2 log2 n + log2 n (log2 n + 1) / 2 steps; 2 M (n-1)/n bytes each way.
//
// For other sizes than powers of two, member core + i (core: the largest power of two) sends its
// vectors to member i. Member i forms adasum(x_i, x_(core+i)) before the first step and returns the
// result after the last. Adasum is not associative, so for n = 3 the answer is adasum(adasum(x0,
// x2), x1): deterministic, the same on every member.
//
// The part that arrives must be kept until the dot products are known. This takes scratch of half a
// batch, or of a whole batch on a member that takes in another. The communicator owns the scratch,
// which grows to the largest Adasum batch seen.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "comm/hypercube.h"
#include "comm/net/algorithms.h"
#include "comm/net/steps.h"
#include "comm/reduction.h"
#include "kernels/adasum.h"

namespace hvdlite::comm::net {

namespace {

using kernels::AdasumDots;

struct State {
  State(const Batch& batch, char* memory, size_t bytes)
      : dtype(batch.dtype),
        reduction(batch),
        scratch(memory),
        arrived(memory, bytes),
        mine(batch.pieces.size()),
        theirs(batch.pieces.size()),
        mine_flat(mine.data(), mine.size() * sizeof(AdasumDots)),
        theirs_flat(theirs.data(), theirs.size() * sizeof(AdasumDots)) {}

  int64_t Count(size_t bytes) const { return static_cast<int64_t>(bytes / reduction.element()); }

  // `lower`: this member holds a, and b has arrived; otherwise the reverse. `base` is the offset of
  // the first arrived byte.
  void Dot(bool lower, size_t base, size_t begin, size_t end) {
    reduction.out().Walk(begin, end, [&](const char* own, size_t at, size_t bytes) {
      const char* other = scratch + (at - base);
      const AdasumDots part =
          kernels::AdasumDot(dtype, lower ? own : other, lower ? other : own, Count(bytes));
      Add(part, &mine[reduction.out().RunAt(at)]);  // run i of the Flat is tensor i
    });
  }
  void Combine(bool lower, size_t base, size_t begin, size_t end) {
    reduction.out().Walk(begin, end, [&](char* own, size_t at, size_t bytes) {
      AdasumDots dots = mine[reduction.out().RunAt(at)];
      if (!lower) std::swap(dots.aa, dots.bb);  // `own` is b, and the formula is symmetric
      kernels::AdasumCombine(dtype, own, scratch + (at - base), Count(bytes), dots);
    });
  }
  // Both partners form the same sums: addition commutes.
  void AddTheirs() {
    for (size_t i = 0; i < mine.size(); ++i) Add(theirs[i], &mine[i]);
  }
  static void Add(const AdasumDots& part, AdasumDots* sum) {
    sum->ab += part.ab;
    sum->aa += part.aa;
    sum->bb += part.bb;
  }

  const DType dtype;
  const Reduction reduction;
  char* const scratch;  // the partner's part
  const Flat arrived;   // the same, as a Flat
  std::vector<AdasumDots> mine;
  std::vector<AdasumDots> theirs;
  const Flat mine_flat;
  const Flat theirs_flat;
};

}  // namespace

std::unique_ptr<Work> AdasumAllreduce(Wire* wire, const Batch& batch) {
  size_t bytes = 0;
  for (const Piece& piece : batch.pieces)
    bytes += static_cast<size_t>(piece.count) * SizeOf(batch.dtype);
  const Hypercube cube(wire->me(), wire->size(), bytes, SizeOf(batch.dtype));
  const Cursor all{0, bytes};
  size_t room = cube.guest >= 0 ? bytes : 0;
  for (const Halving& halving : cube.halvings)
    room = std::max(room, halving.keep.end - halving.keep.at);

  auto steps = std::make_unique<Steps>(wire);
  State* state = steps->Keep(std::make_unique<State>(batch, wire->Scratch(room), room));
  const Flat* out = &state->reduction.out();
  steps->Compute(all, [=](size_t begin, size_t end) { state->reduction.Load(begin, end); });
  if (cube.host >= 0) {
    steps->Exchange({cube.host, out, all}, {});
    steps->Exchange({}, {cube.host, out, all});
    return steps;
  }
  const auto dot = [&](Cursor part, bool lower) {
    steps->Call([=] { state->mine.assign(state->mine.size(), {}); });
    steps->Compute(part, [=](size_t begin, size_t end) { state->Dot(lower, part.at, begin, end); });
  };
  const auto combine = [&](Cursor part, bool lower) {
    steps->Compute(part,
                   [=](size_t begin, size_t end) { state->Combine(lower, part.at, begin, end); });
  };
  if (cube.guest >= 0) {
    steps->Exchange({}, {cube.guest, &state->arrived, all});
    dot(all, true);
    combine(all, true);
  }
  const Cursor dots{0, state->mine_flat.size()};
  for (size_t s = 0; s < cube.halvings.size(); ++s) {
    const Halving& halving = cube.halvings[s];
    const Cursor arriving{0, halving.keep.end - halving.keep.at};
    steps->Exchange({halving.partner, out, halving.give},
                    {halving.partner, &state->arrived, arriving});
    dot(halving.keep, halving.lower);
    for (size_t t = 0; t <= s; ++t) {
      const int partner = cube.halvings[t].partner;
      steps->Exchange({partner, &state->mine_flat, dots}, {partner, &state->theirs_flat, dots});
      steps->Call([=] { state->AddTheirs(); });
    }
    combine(halving.keep, halving.lower);
  }
  steps->Compute(cube.kept, [=](size_t begin, size_t end) { state->reduction.Finish(begin, end); });
  for (auto halving = cube.halvings.rbegin(); halving != cube.halvings.rend(); ++halving) {
    steps->Exchange({halving->partner, out, halving->keep}, {halving->partner, out, halving->give});
  }
  if (cube.guest >= 0) steps->Exchange({cube.guest, out, all}, {});
  return steps;
}

}  // namespace hvdlite::comm::net
