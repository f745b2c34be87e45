// KnownOperation: a blocking allreduce as its caller describes it, before anything is copied or
// allocated. The engine looks whether this rank has asked for the same before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string_view>

#include "base/dtype.h"
#include "base/ops.h"
#include "engine/message.h"

namespace hvdlite::engine {

struct KnownOperation {
  ReduceOp op = ReduceOp::kSum;
  DType dtype = DType::kFloat32;
  double prescale = 1.0;
  double postscale = 1.0;
  std::string_view name;  // with the operation's prefix, as in Request; empty: it has none
  const int64_t* shape = nullptr;
  int dimensions = 0;
  size_t bytes = 0;             // of the tensor
  const void* input = nullptr;  // host memory
  void* output = nullptr;       // as many elements, of the same dtype; may be the input
};

// DECIDES. Whether the caller asks for what this rank has asked for before.
bool IsSame(const Request& before, const KnownOperation& asked);

// DECIDES. Numbers for allreduces that have no name: one number for all that ask for the same.
// Members that have performed the same operations have the same numbers.
class Unnamed {
 public:
  // Of the latest requests it remembers so many.
  static constexpr size_t kMost = 16;

  // Tensors of more bytes are not remembered.
  explicit Unnamed(size_t most_bytes) : most_bytes_(most_bytes) {}

  // All members have performed it. Each calls this with the same requests in the same order.
  void Performed(const Request& request);
  // The request that asks for the same; null if it is not remembered. Sets *number, which no slot
  // has.
  const Request* Find(const KnownOperation& asked, uint64_t* number) const;

 private:
  struct Numbered {
    uint64_t number;
    Request request;
  };
  size_t most_bytes_;
  std::deque<Numbered> latest_;
  uint64_t next_ = uint64_t{1} << 63;
};

}  // namespace hvdlite::engine
