// KnownOperation: a blocking allreduce as its caller describes it, before anything is copied or
// allocated. The engine looks whether this rank has asked for the same before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/dtype.h"
#include "base/ops.h"

namespace hvdlite::engine {

struct KnownOperation {
  ReduceOp op = ReduceOp::kSum;
  DType dtype = DType::kFloat32;
  double prescale = 1.0;
  double postscale = 1.0;
  std::string_view name;  // with the operation's prefix, as in Request
  const int64_t* shape = nullptr;
  int dimensions = 0;
  size_t bytes = 0;             // of the tensor
  const void* input = nullptr;  // host memory
  void* output = nullptr;       // as many elements, of the same dtype; may be the input
};

}  // namespace hvdlite::engine
