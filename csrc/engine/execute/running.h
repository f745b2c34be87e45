// Running: a batch between its decision and its end.
#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "engine/entry.h"
#include "engine/message.h"

namespace hvdlite::engine {

struct Running {
  comm::Batch batch;
  std::vector<Response> responses;
  std::vector<Entry*> entries;  // of the responses; null on a joined rank
  // For each: -1; or the number of the tensor, of a list that is carried out tensor by tensor.
  // Empty: there is no such list.
  std::vector<int> tensors;
  int TensorOf(size_t entry) const { return tensors.empty() ? -1 : tensors[entry]; }
  std::vector<char> zeros;    // a joined rank's input
  std::vector<char> ignored;  // a joined rank's output
  // the same on the GPU, if the rank has one and the batch is on GPUs
  std::unique_ptr<device::Gpu::Buffer> zeros_on_gpu;
  std::unique_ptr<device::Gpu::Buffer> ignored_on_gpu;
  comm::Communicator* communicator = nullptr;  // performs the batch
  std::unique_ptr<comm::Work> work;
  bool failed = false;  // work has returned kFailed: it must not be touched again
  Nanos started = 0;
  Nanos waits_since = 0;  // for a peer; kept if news wakes no thread
};

}  // namespace hvdlite::engine
