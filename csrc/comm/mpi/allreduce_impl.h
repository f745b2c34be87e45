// AllreduceImpl: how an allreduce goes over MPI. DECIDES: pure arithmetic, equal on all members.
#pragma once

#include <string>

#include "base/ops.h"
#include "comm/choose.h"

namespace hvdlite::comm::mpi {

enum class AllreduceImpl : uint8_t {
  kOneShot,  // everyone sends all to all
  kDirect,   // to the owner, who sums, and back
  kGather,   // everyone gets all in doubling stretches, everyone sums
  kLibrary,  // MPI_Iallreduce, which sums in an order of its own
};

// `wish`: HVDLITE_MPI_ALLREDUCE. Unless it is "library", no way changes a bit.
AllreduceImpl ChooseImpl(const Question& question, ReduceOp op, const std::string& wish);
// The sentence for people.
std::string ExplainImpl(const Question& question, ReduceOp op, const std::string& wish);

}  // namespace hvdlite::comm::mpi
