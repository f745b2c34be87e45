// Choice: how the tensors on GPUs of one process set travel. DECIDES, from what all members have
// said of themselves, so all decide alike.
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
  std::string why;    // a sentence for people
  bool warn = false;  // not asked for by the user, and it costs speed or may fail
};

struct Wish {
  std::string operations;  // HVDLITE_GPU_OPERATIONS
  std::string host;        // why the host communicator is what it is: "mpi (Open MPI v5.0.11): ..."
};

// `ranks`: the members' global ranks, in the order of `records`. kInvalidArgument: NCCL was
// demanded, and a rank, which is named, keeps it from being used.
Status Decide(const std::vector<Record>& records, const std::vector<int>& ranks, const Wish& wish,
              Choice* choice);

}  // namespace hvdlite::comm::gpu
