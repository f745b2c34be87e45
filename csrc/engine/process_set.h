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

#include "comm/world.h"
#include "engine/entry.h"
#include "engine/execute/in_flight.h"
#include "engine/execute/running.h"
#include "engine/negotiate/agree.h"
#include "engine/queue/inbox.h"
#include "engine/suspicion.h"

namespace hvdlite::engine {

// What a slot stands for on this rank.
struct Remembered {
  AgreedPtr agreed;
  bool asked = false;  // this rank took part, rather than had joined
  Request mine;        // what it asked for: ask for the same again and the slot says it
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
  InFlight in_flight;           // on the GPU
  std::vector<Entry*> fetched;  // scratch of the turn
  std::vector<Decision> heard;  // scratch of the turn
  Suspicion suspicion;          // why is a link of this set broken?

  // The slot that stands for operations of this name; kNoSlot if there is none. `same`: this rank
  // asks for what it asked for when it got the slot.
  uint64_t SlotOf(const Request& request, bool* same) const;
  // Fills in what a slot stands for, or notes what it stands for from now on. False if no response
  // has ever said what the slot stands for.
  bool Remember(Response* response);
  // The members no longer use the slot.
  void Forget(uint64_t slot);

  bool member() const { return group->me >= 0; }
  bool idle() const { return running == nullptr && decided.empty(); }
};

}  // namespace hvdlite::engine
