// ProcessSet: a subset of the ranks (or all of them) with the state that belongs to it alone: its
// group, its agreement, its inbox, what it remembers and what it is doing.
//
// Thread-safety: the inbox from any thread; the rest for the holder of the engine's turn.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "comm/shm/fast_in_place.h"
#include "comm/world.h"
#include "engine/entry.h"
#include "engine/execute/in_flight.h"
#include "engine/execute/running.h"
#include "engine/known_operation.h"
#include "engine/meeting.h"
#include "engine/negotiate/agree.h"
#include "engine/queue/inbox.h"
#include "engine/suspicion.h"

namespace hvdlite::engine {

// What a slot stands for on this rank.
struct Remembered {
  AgreedPtr agreed;
  bool asked = false;  // false: this rank had joined
  Request mine;        // this rank's request; if it asks for the same again, the slot says it
  mutable uint64_t rounds = 0;  // how often all members have performed it
};

// Slots by name. Looking a name up makes no copy of it.
struct HashOfName {
  using is_transparent = void;
  size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
};
using NamedSlots = std::unordered_map<std::string, uint64_t, HashOfName, std::equal_to<>>;

// Of a set whose members meet.
struct Meets {
  explicit Meets(int me) : meeting(me) {}
  Meeting meeting;
  Entry* offered = nullptr;  // waits for the end of this rank's offer
  Status unheard;            // why this rank could not speak or hear, if it could not
};

struct ProcessSet {
  int id = 0;
  std::vector<int> ranks;  // global, ascending
  std::string given_name;  // under which its members alone have added it; empty: all ranks have
  std::unique_ptr<comm::Group> group;
  std::unique_ptr<Agreement> agreement;  // null if this rank is not a member
  Inbox inbox;

  std::unordered_map<uint64_t, Remembered> slots;
  NamedSlots slot_of;
  bool remembers = true;  // false: the user wants no slots
  Unnamed unnamed{0};
  std::deque<Decision> decided;  // not yet begun
  uint64_t epoch = 0;            // decisions begun; equal on two members if they know equal slots
  std::unique_ptr<Running> running;
  InFlight in_flight;            // on the GPU
  Gathering gathering;           // on the root: operations on GPUs that wait for more
  size_t undecided = 0;          // entries that this rank negotiates
  std::unique_ptr<Meets> meets;  // null: its members do not meet
  std::vector<Entry*> fetched;   // announced in the next turn
  std::vector<Decision> heard;   // obeyed in the next turn
  Suspicion suspicion;           // the possible causes of a broken link of this set

  // The slot that stands for operations of this name; kNoSlot if there is none. `same`: this rank's
  // request is the one for which it got the slot.
  uint64_t SlotOf(const Request& request, bool* same) const;
  // Fills in what a slot stands for, or records what it stands for from now on. Returns false if no
  // response has ever described the slot.
  bool Remember(Response* response);
  // What this rank has asked for under the name before; null if never. Sets *slot.
  const Remembered* Recall(std::string_view name, uint64_t* slot) const;
  // How often all members have performed operations of this name; 0 if it is not remembered.
  uint64_t Rounds(std::string_view name) const;
  // How often all members have performed what they have performed most often.
  uint64_t Steps() const;
  // This rank negotiates the entry from now on, or no longer; other members see it (see
  // comm::shm::FastExchange). `entry` may be null.
  void Announced(Entry* entry);
  void Decided(Entry* entry);
  // On the root: whether ready operations are kept for more of them. `waited_for`: a thread of this
  // rank waits for a result.
  bool Keeps(const Readiness& readiness, Nanos now, bool waited_for);
  // Forgets a slot that the members no longer use.
  void Forget(uint64_t slot);

  bool has_fast_path() const { return meets != nullptr || group->fast_exchange != nullptr; }
  // The largest tensor that may take it.
  size_t fast_bytes() const {
    if (meets != nullptr) return Meeting::kMostBytes;
    return group->shared.peers != nullptr ? comm::shm::FastInPlace::kMostBytes
                                          : comm::shm::FastExchange::kMostBytes;
  }

  bool member() const { return group->me >= 0; }
  bool idle() const { return running == nullptr && decided.empty(); }
};

}  // namespace hvdlite::engine
