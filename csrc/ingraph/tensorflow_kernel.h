// The kernel of one node in TensorFlow's graph: the node's attributes, in the same form for every
// operation.
//
// Thread-safety: a kernel is immutable; TensorFlow may compute it on several threads at once.
#pragma once

#include <string>

#include "api/hvdlite.h"
#include "ingraph/tensorflow_abi.h"

namespace hvdlite::ingraph {

struct Kernel {
  int32_t kind = HVDLITE_ALLREDUCE;
  int64_t op = 0;  // the reduction
  int64_t process_set = 0;
  int64_t root = 0;
  double prescale = 1.0;
  double postscale = 1.0;
  int64_t grouped = 0;  // its tensors form a group under one name
  std::string name;
};

// The attributes, as an operation's definition lists them. Factors are the bits of a double,
// because TensorFlow's floats have 32 bits.
constexpr const char* kAttributes[] = {
    "op: int = 1",
    "process_set: int = 0",
    "root: int = 0",
    "prescale_bits: int = 4607182418800017408",
    "postscale_bits: int = 4607182418800017408",
    "grouped: int = 0",
    "tensor_name: string",
};

void* CreateKernel(int32_t kind, TfConstruction* construction);
void DeleteKernel(void* kernel);

}  // namespace hvdlite::ingraph
