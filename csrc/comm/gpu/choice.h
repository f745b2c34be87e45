// Choice: how one process set's tensors on GPUs travel. DECIDES, from the records of all members,
// so all decide alike.
#pragma once

#include <string>
#include <vector>

#include "comm/gpu/record.h"

namespace hvdlite::comm::gpu {

enum class Route : uint8_t {
  kLater,  // a member has no GPU yet: this batch is staged, the next one asks again
  kNccl,
  kStage,  // through host memory
};

struct Choice {
  Route route = Route::kLater;
  std::string why;    // as a sentence
  bool warn = false;  // the user did not ask for it, and it costs speed or may fail
};

struct Preference {
  std::string operations;  // HVDLITE_GPU_OPERATIONS
  std::string host;        // why the host communicator is what it is: "mpi (Open MPI v5.0.11): ..."
};

// `ranks`: the members' global ranks, in the order of `records`. kInvalidArgument: NCCL was
// demanded, but the named rank cannot use it.
Status Decide(const std::vector<Record>& records, const std::vector<int>& ranks,
              const Preference& preference, Choice* choice);

}  // namespace hvdlite::comm::gpu
