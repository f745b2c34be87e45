// Gather: allreduce of small tensors among many members: each member gets all tensors and sums
// them.
//
//   4 of 7 members        0          1          2          3         blocks by distance from owner
//   step 0, distance 1    0 1        1 2        2 3        3 4
//   step 1, distance 2    0 1 2 3    1 2 3 4    2 3 4 5    3 4 5 6
//   step 2, distance 4    the last stretch has what is missing: 0 1 2 3 4 5 6, ...
//
// Cost: log2 n steps (rounded up) and (n-1) M bytes each way; scratch for n M bytes. One-shot sends
// n-1 messages where this one sends log2 n.
#include <algorithm>
#include <memory>
#include <vector>

#include "comm/net/algorithms.h"
#include "comm/net/steps.h"
#include "comm/reduction.h"

namespace hvdlite::comm::net {

std::unique_ptr<Work> GatherAllreduce(Wire* wire, const Batch& batch) {
  const int n = wire->size();
  const int me = wire->me();
  auto steps = std::make_unique<Steps>(wire);
  const Reduction* reduction = steps->Keep(std::make_unique<Reduction>(batch));
  const size_t bytes = reduction->in().size();
  char* scratch = wire->Scratch(bytes * static_cast<size_t>(n));
  const Flat* blocks = steps->Keep(std::make_unique<Flat>(scratch, bytes * static_cast<size_t>(n)));

  steps->Compute({0, bytes}, [=](size_t begin, size_t end) {
    CopyOut(reduction->in(), {begin, end}, scratch + begin);
  });
  for (int distance = 1; distance < n; distance *= 2) {
    const auto have = static_cast<size_t>(distance);
    const size_t more = std::min(have, static_cast<size_t>(n) - have);
    steps->Exchange({(me - distance + n) % n, blocks, {0, more * bytes}},
                    {(me + distance) % n, blocks, {have * bytes, (have + more) * bytes}});
  }
  auto* contributions =
      steps->Keep(std::make_unique<std::vector<const char*>>(static_cast<size_t>(n)));
  steps->Compute({0, bytes}, [=](size_t begin, size_t end) {
    for (int member = 0; member < n; ++member) {
      const auto block = static_cast<size_t>((member - me + n) % n);
      (*contributions)[static_cast<size_t>(member)] = scratch + block * bytes + begin;
    }
    reduction->Reduce(me, *contributions, begin, end);
  });
  return steps;
}

}  // namespace hvdlite::comm::net
