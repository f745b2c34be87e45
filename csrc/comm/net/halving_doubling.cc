// Halving-doubling: allreduce of small tensors among many members.
//
//   fold in     members beyond a power of two hand their vector to a partner      (only then)
//   halving     exchange halves at distance 1, 2, 4, ... and add: reduce-scatter  log2 n steps
//   doubling    the same way back with finished parts: allgather                  log2 n steps
//   fold out    the partner returns the result
//
// Cost: 2 log2 n steps and 2 M (n-1)/n bytes each way; other sizes than powers of two 2 steps and 2 M more.
// Each element is finished by one member, in an order that the member numbers fix. See hypercube.h for who
// meets whom.
#include <algorithm>
#include <memory>

#include "comm/hypercube.h"
#include "comm/net/algorithms.h"
#include "comm/net/steps.h"
#include "comm/reduction.h"

namespace hvdlite::comm::net {

std::unique_ptr<Work> HalvingDoublingAllreduce(Wire* wire, const Batch& batch) {
  auto steps = std::make_unique<Steps>(wire);
  const Reduction* reduction = steps->Keep(std::make_unique<Reduction>(batch));
  const Flat* out = &reduction->out();
  const Cursor all{0, out->size()};
  const Hypercube cube(wire->me(), wire->size(), all.end, reduction->element());

  steps->Compute(all, [=](size_t begin, size_t end) { reduction->Load(begin, end); });
  if (cube.host >= 0) {
    steps->Exchange({cube.host, out, all}, {});
    steps->Exchange({}, {cube.host, out, all});
    return steps;
  }
  char* scratch = wire->Scratch(all.end);  // what a partner sends, until it is added
  const Flat* arrived = steps->Keep(std::make_unique<Flat>(scratch, all.end));
  const auto add = [&](Cursor to) {
    steps->Compute(to, [=](size_t begin, size_t end) { reduction->Accumulate(scratch + (begin - to.at), begin, end); });
  };
  if (cube.guest >= 0) {
    steps->Exchange({}, {cube.guest, arrived, all});
    add(all);
  }
  for (const Halving& halving : cube.halvings) {
    const Cursor keep = halving.keep;
    steps->Exchange({halving.partner, out, halving.give}, {halving.partner, arrived, {0, keep.end - keep.at}});
    add(keep);
  }
  steps->Compute(cube.kept, [=](size_t begin, size_t end) { reduction->Finish(begin, end); });
  for (auto halving = cube.halvings.rbegin(); halving != cube.halvings.rend(); ++halving) {
    steps->Exchange({halving->partner, out, halving->keep}, {halving->partner, out, halving->give});
  }
  if (cube.guest >= 0) steps->Exchange({cube.guest, out, all}, {});
  return steps;
}

}  // namespace hvdlite::comm::net
