// The C functions of sparse.h.
#include "kernels/select.h"

#include <atomic>
#include <limits>
#include <string>

#include "api/report.h"
#include "api/sparse.h"

using hvdlite::Status;
using hvdlite::api::Report;
namespace kernels = hvdlite::kernels;

namespace {

constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

struct Counters {
  std::atomic<uint64_t> selections{0};
  std::atomic<uint64_t> spreads{0};
};
Counters& OfThisProcess() {
  static Counters counters;
  return counters;
}

}  // namespace

hvdlite_code hvdlite_select(const hvdlite_selection* selection) {
  if (selection->count > kMost)
    return Report(Status::InvalidArgument(
        "a tensor of " + std::to_string(selection->count) +
        " elements is too large for a sparse compression: a position has 32 bits"));
  if (selection->taken < 1 || selection->taken > selection->count)
    return Report(Status::InvalidArgument("cannot take " + std::to_string(selection->taken) +
                                          " of " + std::to_string(selection->count) + " elements"));
  kernels::Selection what;
  what.count = selection->count;
  what.gradient = selection->gradient;
  what.residual = selection->residual;
  what.velocity = selection->velocity;
  what.momentum = selection->momentum;
  what.nesterov = selection->nesterov != 0;
  what.masking = selection->masking != 0;
  what.new_residual = selection->new_residual;
  what.new_velocity = selection->new_velocity;
  what.taken = selection->taken;
  what.values = selection->values;
  what.positions = selection->positions;
  kernels::Select(what);
  ++OfThisProcess().selections;
  return HVDLITE_OK;
}

hvdlite_code hvdlite_spread(const float* values, const int32_t* positions, int64_t pairs,
                            float factor, int64_t count, float* output) {
  if (!kernels::Spread({values, positions, pairs}, factor, count, output))
    return Report(Status::InvalidArgument(
        "a rank has sent elements that this rank's tensor of " + std::to_string(count) +
        " elements does not have: give the tensor the same shape on all ranks"));
  ++OfThisProcess().spreads;
  return HVDLITE_OK;
}

void hvdlite_selections(uint64_t* selected, uint64_t* spread) {
  *selected = OfThisProcess().selections;
  *spread = OfThisProcess().spreads;
}
