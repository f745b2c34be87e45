// Job: what the engine's parametrized tests vary.
#pragma once

#include <ostream>

namespace hvdlite::testing {

struct Job {
  int ranks, hosts;
  bool mpi = false;
};

inline void PrintTo(const Job& job, std::ostream* out) {
  *out << job.ranks << " ranks on " << job.hosts << " hosts" << (job.mpi ? " over MPI" : "");
}

}  // namespace hvdlite::testing
