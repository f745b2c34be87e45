// Tally: one named operation on its way to agreement: who has asked for it, and what each has said.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/message.h"

namespace hvdlite::engine {

enum class Presence : uint8_t {
  kMissing = 0,
  kAsked = 1,   // has sent a request (or the number of its slot)
  kJoined = 2,  // has called join(): contributes zeros or nothing
};

struct Tally {
  // This round.
  // Once some member has sent the request in full, and the slot no longer says it all.
  struct Draft {
    Request first;              // what the first member said; the others are compared with it
    std::vector<int64_t> rows;  // as in Agreed::rows
  };
  std::optional<Draft> draft;
  int first_member = -1;
  std::vector<Presence> presence;                // per member
  int present = 0;                               // how many are not kMissing
  std::vector<std::pair<int, Request>> dissent;  // members that said something else that must agree
  Nanos since = 0;                               // when the first member asked
  AgreedPtr agreed;                              // once it is ready

  // What the slot remembers from the last agreed round.
  uint64_t slot = kNoSlot;
  AgreedPtr remembered;
  uint64_t last_used = 0;  // in rounds of the ledger, for eviction

  size_t pending_index = SIZE_MAX;  // where the ledger lists it while it is incomplete

  // What this round is about, before it is agreed.
  const Request& said() const { return draft ? draft->first : remembered->request; }
};

}  // namespace hvdlite::engine
