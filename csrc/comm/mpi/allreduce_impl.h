// AllreduceImpl: the algorithm of an allreduce over MPI. DECIDES: pure arithmetic, equal on all
// members.
#pragma once

#include <string>

#include "base/ops.h"
#include "comm/choose.h"

namespace hvdlite::comm::mpi {

enum class AllreduceImpl : uint8_t {
  kOneShot,  // all send all to all
  kDirect,   // to the owner, which sums, and back
  kGather,   // all get all in doubling stretches, and sum
  kLibrary,  // MPI_Iallreduce, which sums in an order of its own
};

// `preference`: HVDLITE_MPI_ALLREDUCE. Unless it is "library", the choice changes no bit of the
// result.
AllreduceImpl ChooseImpl(const Question& question, ReduceOp op, const std::string& preference);
// The choice as a sentence.
std::string ExplainImpl(const Question& question, ReduceOp op, const std::string& preference);

}  // namespace hvdlite::comm::mpi
