// FastPath: performs a small blocking allreduce that all members know from before, without
// negotiation. Each member offers its tensor together with the slot that stands for the operation
// (comm/shm/fast_exchange.h). If all have offered the same, they have agreed and exchanged in one
// step.
//
// The fast path decides only how an operation happens, never whether. A member that does not find
// the others there withdraws before it would sleep, and submits the operation. So late, dead and
// frozen ranks, mismatches, aborts and the end of the job are found where they are found otherwise.
//
// A member takes it only if nothing else of this rank is outstanding. So it delays no other
// operation, and no thread needs the turn that it holds meanwhile.
//
// Thread-safety: Perform from any thread.
#pragma once

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

  // Returns false if the operation must be submitted: nothing has happened.
  bool Perform(int set, const KnownOperation& asked);

 private:
  bool PerformIn(ProcessSet* set, const KnownOperation& asked, Nanos now) REQUIRES(turn_);

  Turn& turn_;
  Sets& sets_;
  const Life& life_;
  Observer& observer_;
  const Jitter& jitter_;
  comm::World* world_ = nullptr;
};

}  // namespace hvdlite::engine
