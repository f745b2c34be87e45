// ProcessSet: a subset of the ranks (or all of them) with everything that belongs to it alone: its
// group, its agreement, its inbox, what it remembers and what it is doing.
//
// Thread-safety: the inbox from any thread; the rest for the holder of the engine's turn.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "comm/gpu/gpu_communicator.h"
#include "comm/world.h"
#include "engine/entry.h"
#include "engine/negotiate/agree.h"
#include "engine/queue/inbox.h"

namespace hvdlite::engine {

// What a slot stands for on this rank.
struct Remembered {
  AgreedPtr agreed;
  bool asked = false;  // this rank took part, rather than had joined
  Request mine;        // what it asked for: ask for the same again and the slot says it
};

// A batch under way.
struct Running {
  comm::Batch batch;
  std::vector<Response> responses;
  std::vector<Entry*> entries;  // null where this rank has joined
  std::vector<char> zeros;      // what a joined rank contributes ...
  std::vector<char> ignored;    // ... and where its results go
  // the same, if it has a GPU and the batch is on one
  std::unique_ptr<device::Gpu::Buffer> zeros_on_gpu;
  std::unique_ptr<device::Gpu::Buffer> ignored_on_gpu;
  comm::Communicator* communicator = nullptr;  // who carries it
  std::unique_ptr<comm::Work> work;
  bool failed = false;  // work has said kFailed: it must not be touched again
  Nanos started = 0;
  Nanos waits_since = 0;  // for a peer; kept where news wakes no thread
};

// A batch on a GPU whose handles are done: what the device still uses.
struct InFlight {
  PendingBatchPtr pending;
  std::unique_ptr<Running> running;
};

struct ProcessSet {
  int id = 0;
  std::vector<int> ranks;  // global, ascending
  std::unique_ptr<comm::Group> group;
  std::unique_ptr<Agreement> agreement;  // null if this rank is not a member
  Inbox inbox;

  std::unordered_map<uint64_t, Remembered> slots;
  std::unordered_map<std::string, uint64_t> slot_of;
  std::deque<Decision> decided;  // not yet begun
  std::unique_ptr<Running> running;
  std::unique_ptr<comm::gpu::GpuCommunicator> on_gpu;  // null before the first batch on a GPU
  std::deque<InFlight> in_flight;                      // in the order of the stream
  std::vector<Entry*> fetched;                         // scratch of the turn
  std::vector<Decision> heard;                         // scratch of the turn
  Status suspicion;  // a link of this set is broken: whose fault is it really?
  Nanos suspicion_since = 0;
  Nanos suspicion_until = 0;

  bool member() const { return group->me >= 0; }
  bool idle() const { return running == nullptr && decided.empty(); }
};

}  // namespace hvdlite::engine
