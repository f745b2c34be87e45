// FastPath: performs a small blocking allreduce that all members know from before, without
// negotiation. Each member offers its tensor together with the slot that stands for the operation.
// If all have offered the same, they have agreed and exchanged in one step.
//
//   one host    comm/shm/fast_exchange.h. A member that does not find the others there withdraws
//               before it would sleep, and submits the operation. Tensors of 16 to 256 KiB only
//               where they lie in memory that all share (comm/shm/fast_in_place.h)
//   two hosts   meeting.h. An offer is a promise. A member that does not find the other there
//               submits the operation as offered; Resume ends it, or has it negotiated
//
// The fast path decides only how an operation happens, never whether. So late, dead and frozen
// ranks, mismatches, aborts and the end of the job are found where they are found otherwise.
//
// A member takes it only if nothing else of this rank is outstanding. So it delays no other
// operation, and no thread needs the turn that it holds meanwhile.
//
// Thread-safety: Perform from any thread.
#pragma once

#include <memory>

#include "base/jitter.h"
#include "comm/world.h"
#include "engine/known_operation.h"
#include "engine/life.h"
#include "engine/observe/observer.h"
#include "engine/sets.h"
#include "engine/turn.h"

namespace hvdlite::engine {

class FastPath {
 public:
  // Borrows all.
  FastPath(Turn* turn, Sets* sets, const Life* life, Observer* observer, const Jitter* jitter)
      : turn_(*turn), sets_(*sets), life_(*life), observer_(*observer), jitter_(*jitter) {}
  // Call before anything else.
  void Open(comm::World* world) { world_ = world; }

  // Returns false if the operation must be submitted: nothing has happened. Sets *offered if it
  // must be submitted as offered.
  bool Perform(int set, const KnownOperation& asked, bool* offered);
  // An operation cannot be submitted as offered.
  void Abandon(int set);

  // Answers the other member of a meeting where this one does not come. If this rank's offer has
  // had an end, its entry is announced next, or returned: then it was performed, and is to be
  // completed.
  Entry* Resume(ProcessSet* set, Nanos now, bool* moved) REQUIRES(turn_);

 private:
  // The job ends, or a timeline of this rank shows every operation.
  bool Abstains() const {
    return life_.ended() || life_.agreed() || life_.leaving() || observer_.watches_arrivals();
  }
  bool PerformIn(ProcessSet* set, const KnownOperation& asked, Nanos now, bool* offered)
      REQUIRES(turn_);
  // What this rank has asked for before, and what stands for it.
  struct Known {
    const Request* request = nullptr;  // null: nothing
    const Remembered* named = nullptr;
    uint64_t slot = kNoSlot;
    std::unique_ptr<Request> kept;  // where the set may forget it meanwhile
  };
  Known Recall(const ProcessSet& set, const KnownOperation& asked) const REQUIRES(turn_);
  // Waits until all members have come with this rank's offer. Returns false if this rank has not
  // waited for them.
  bool Exchange(const ProcessSet& set, const Known& known) REQUIRES(turn_);
  bool PerformInPlace(ProcessSet* set, Known* known, const KnownOperation& asked) REQUIRES(turn_);
  bool PerformInExchange(ProcessSet* set, const Known& known, const KnownOperation& asked)
      REQUIRES(turn_);
  bool PerformInMeeting(ProcessSet* set, const Known& known, const KnownOperation& asked, Nanos now,
                        bool* offered) REQUIRES(turn_);
  // Counts and shows an operation that was performed.
  void Performed(const ProcessSet& set, const Request& request, size_t bytes, Nanos asked)
      REQUIRES(turn_);

  Turn& turn_;
  Sets& sets_;
  const Life& life_;
  Observer& observer_;
  const Jitter& jitter_;
  comm::World* world_ = nullptr;
};

}  // namespace hvdlite::engine
