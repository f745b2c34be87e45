// Vigil: looks a few times a second for ranks that give no sign of life and for connections that
// carry nothing.
//
// A rank without a heartbeat is frozen (SIGSTOP, swapping, a hung file system), or its host is
// gone. A rank that is busy in user code still sends heartbeats. Thread-safety: for the holder of
// the turn.
#pragma once

#include <string>
#include <vector>

#include "comm/world.h"
#include "engine/observe/silence.h"
#include "engine/outage.h"
#include "engine/sets.h"

namespace hvdlite::engine {

class Vigil {
 public:
  // `tick`: how often Look and Check are called.
  explicit Vigil(Nanos tick)
      : silences_(3 * tick), remote_silences_(3 * tick), outages_(3 * tick) {}

  // Silence and outages count from now on.
  void Begin(Nanos now);
  // Tells that time has passed. Call before each Check.
  void Look(Nanos now);
  // Returns OK, or an error that names the frozen rank or the interrupted connection. `limit`: how
  // long either may last; 0: for ever.
  Status Check(Nanos now, Nanos limit, comm::World* world, const Sets& sets);

  // Why that rank does nothing, as far as the kernel of this host says; may be empty.
  static std::string WhyItRests(const comm::World& world, int rank);

  // For a thread that holds the turn and waits elsewhere. Shows that this rank is alive. Returns
  // OK, or the death of a rank whose link Cycle would have found broken.
  static Status BeatAndLook(comm::World* world, const Sets& sets);

 private:
  Status CheckHost(Nanos limit, comm::World* world);
  Status CheckOutages(Nanos now, Nanos limit, const comm::World& world, const Sets& sets);

  Silences silences_;         // of the ranks of this host
  Silences remote_silences_;  // of the tree's edges between hosts
  Outages outages_;           // of all links
};

}  // namespace hvdlite::engine
