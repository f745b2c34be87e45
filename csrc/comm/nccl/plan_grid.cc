// An allreduce by a Grid. Each host sums, so that the member at place p holds the p-th share of its
// host's sum. The members at each place sum their shares. Each host gathers them. A rest that
// cannot be shared evenly, less than an element for each place, is summed among all members.
#include "comm/nccl/planner.h"

namespace hvdlite::comm::nccl {

void Planner::Allreduce(const void* from, void* to, size_t bytes) {
  const Grid& grid = context_.grid;
  if (!grid.used) return Do(What::kAllReduce, from, to, bytes);
  const size_t places = static_cast<size_t>(grid.places);
  const size_t share = bytes / element_ / places * element_;
  char* const mine = At(to, static_cast<size_t>(grid.place) * share);
  Do(kInside, What::kReduceScatter, from, mine, share);
  Do(kBetween, What::kAllReduce, mine, mine, share);
  Do(kInsideAgain, What::kAllGather, mine, to, share);
  const size_t shared = places * share;
  Do(What::kAllReduce, At(from, shared), At(to, shared), bytes - shared);
}

size_t Planner::Shared(size_t bytes) const {
  const size_t places = static_cast<size_t>(context_.grid.places);
  return Aligned((bytes + places - 1) / places) * places;
}

}  // namespace hvdlite::comm::nccl
