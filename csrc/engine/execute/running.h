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
  std::vector<Entry*> entries;  // null where this rank has joined
  std::vector<char> zeros;      // what a joined rank contributes ...
  std::vector<char> ignored;    // ... and where its results go
  // the same, if it has a GPU and the batch is on one
  std::unique_ptr<device::Gpu::Buffer> zeros_on_gpu;
  std::unique_ptr<device::Gpu::Buffer> ignored_on_gpu;
  comm::Communicator* communicator = nullptr;  // what carries it
  std::unique_ptr<comm::Work> work;
  bool failed = false;  // work has said kFailed: it must not be touched again
  Nanos started = 0;
  Nanos waits_since = 0;  // for a peer; kept where news wakes no thread
};

}  // namespace hvdlite::engine
