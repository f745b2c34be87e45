// Tally: one named operation in negotiation: which members have asked for it, and with which
// requests.
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
  kAsked = 1,    // has sent a request (or the number of its slot)
  kJoined = 2,   // has called join(): contributes zeros or nothing
  kOutside = 3,  // the request does not name it (kAmongNamed)
};

struct Tally {
  // This round.
  // Set once a member has sent the request in full, so that the slot no longer says everything.
  struct Draft {
    Request first;              // the first member's request; the others are compared with it
    std::vector<int64_t> rows;  // as in Agreed::rows
  };
  std::optional<Draft> draft;
  int first_member = -1;
  std::vector<Presence> presence;  // per member
  int present = 0;                 // how many are not kMissing
  // members whose request differs in something that must agree
  std::vector<std::pair<int, Request>> dissent;
  Status refusal;    // the root refuses it, whatever the members say (kAmongNamed)
  Nanos since = 0;   // when the first member asked
  AgreedPtr agreed;  // set once it is ready

  // What the slot remembers from the last agreed round.
  uint64_t slot = kNoSlot;
  AgreedPtr remembered;
  uint64_t last_used = 0;  // in rounds of the ledger, for eviction

  // Of a list whose tensors have names of their own, while the ledger knows these: the other lists
  // that have one of them, and how many of them are pending alone.
  std::shared_ptr<const std::vector<std::string>> names;
  std::vector<Tally*> relatives;
  size_t pending_alone = 0;

  size_t pending_index = SIZE_MAX;  // where the ledger lists it while it is incomplete

  // The request of this round, before it is agreed.
  const Request& said() const { return draft ? draft->first : remembered->request; }
};

}  // namespace hvdlite::engine
