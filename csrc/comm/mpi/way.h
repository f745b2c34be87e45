// Way: how an allreduce goes over MPI. DECIDES: pure arithmetic, equal on all members.
#pragma once

#include <string>

#include "base/ops.h"
#include "comm/choose.h"

namespace hvdlite::comm::mpi {

enum class Way : uint8_t {
  kOneShot,  // everyone sends all to all
  kDirect,   // to the owner, who sums, and back
  kLibrary,  // MPI_Iallreduce
};

// `wish`: HVDLITE_MPI_ALLREDUCE.
Way ChooseWay(const Question& question, ReduceOp op, const std::string& wish);
// The sentence for people.
std::string WhyWay(const Question& question, ReduceOp op, const std::string& wish);

}  // namespace hvdlite::comm::mpi
