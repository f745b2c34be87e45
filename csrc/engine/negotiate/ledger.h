// Ledger: counts, for every named operation, the members of a process set that have asked for it.
// DECIDES what is ready; pure: no I/O, and the caller passes the time.
//
// It lives on the first member of the set. A request may come in full or as the number of a slot,
// which stands for "the same as last time". Operations become ready in the order in which their
// last member asked. Members of a group are ready together. A joined member counts as present
// everywhere, and so does a member that a request kAmongNamed does not name (see named.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/spans.h"
#include "engine/message.h"
#include "engine/negotiate/named.h"
#include "engine/negotiate/tally.h"

namespace hvdlite::engine {

class Ledger {
 public:
  // Remembers at most `capacity` operations in slots.
  Ledger(int members, size_t capacity)
      : members_(members), capacity_(capacity), joined_(members, false), waited_for_(members) {}

  // Returns false if the request is impossible for this member (unknown slot, asked twice): the
  // sender is broken.
  bool Add(int member, Request request, Nanos now);
  bool AddCached(int member, uint64_t slot, Nanos now);
  // Records that one more member has forgotten an evicted slot and will never send its number
  // again.
  void Forgotten(uint64_t slot);

  // The operations that have become ready since the last call, in order. Valid until Settle. A
  // complete join shows as last_joined() >= 0.
  std::vector<Tally*> TakeReady();
  // What TakeReady would return.
  const std::vector<Tally*>& ready() const { return ready_; }
  // Makes groups ready, as disagreements, that would never become ready: every member has asked for
  // the group in full, but with different numbers of tensors, and so under different names; or some
  // have asked for it as a list and some tensor by tensor, because one of their tensors differs.
  // Searches everything that is pending.
  void FindTornGroups();
  // Ends the round of a tally from TakeReady. With `remember` the operation keeps or gets a slot.
  void Settle(Tally* tally, bool remember);
  // The slot that a tally from TakeReady will have after Settle(remember); kNoSlot if the cache is
  // off.
  uint64_t SlotFor(Tally* tally);

  // An operation kAmongNamed is carried out: see NamedSets.
  void Perform(const Request& request) { named_sets_.Perform(request); }

  // The last member to join, once all members have joined; then resets the join. -1 otherwise.
  int TakeLastJoined();
  bool anyone_joined() const { return joined_count_ > 0; }
  bool joined(int member) const { return joined_[static_cast<size_t>(member)]; }

  // Slots to forget now because there are too many. Each member answers, which is passed to
  // Forgotten.
  std::vector<uint64_t> TakeEvictions();

  // One member's request, if arrivals are watched.
  struct Arrival {
    std::string name;
    OpKind kind;
    int member;
    Nanos at;
  };
  void WatchArrivals(bool on) { watching_ = on; }
  // The arrivals since the last call, in order.
  std::vector<Arrival> TakeArrivals() { return std::exchange(arrivals_, {}); }

  // How long all others have waited for each member, summed over the operations for which it was
  // the last to ask.
  const std::vector<Spans>& waited_for() const { return waited_for_; }

  // Operations that some but not all members have asked for.
  const std::vector<Tally*>& pending() const { return pending_; }
  size_t remembered() const { return slots_.size(); }
  // How many lists have been counted tensor by tensor.
  uint64_t unlisted() const { return unlisted_; }

 private:
  struct Group {
    std::vector<Tally*> ready;
  };
  struct Evicted {
    std::unique_ptr<Tally> tally;
    int waiting_for;
  };

  Tally* Find(const std::string& name);
  void BeginRound(Tally* tally, int member, const Request& request, Nanos now);
  void Record(Tally* tally, int member, Request request);
  void MarkPresent(Tally* tally, int member, Presence presence);
  void MarkAsked(Tally* tally, int member, Nanos now);
  void Join(int member);
  // Lists are counted tensor by tensor where another member asks for one of these in another way.
  // Groups: found by search, because it is always an error.
  void UnlistGroupsThatOthersDoNotList();
  // Other lists: found when a round has begun.
  void UnlistRelatives(Tally* tally);
  void Unlist(Tally* list);
  // A list's tensors have these names from now on, or no longer.
  void Register(Tally* list, const Request& request);
  void Unregister(Tally* list);
  // A request for one tensor begins or ends to be pending.
  void CountAlone(const Request& request, int change);
  // Forgets lists that were counted tensor by tensor before they had a slot.
  void ForgetLists();
  // Makes a group ready as a disagreement. `tallies` are its tensors; `sizes` has the number of
  // tensors that each member has put into it.
  void TearApart(const std::vector<Tally*>& tallies, const std::vector<uint32_t>& sizes);
  void RemovePending(Tally* tally);
  // Makes the tally ready, to fail with the error.
  void Refuse(Tally* tally, const Status& why);
  // Refuses the tally, and those that it contradicts.
  void RefuseIfContradicted(Tally* tally);

  const int members_;
  const size_t capacity_;
  std::unordered_map<std::string, std::unique_ptr<Tally>> by_name_;
  std::unordered_map<uint64_t, Tally*> slots_;
  std::unordered_map<uint64_t, Evicted> evicted_;
  std::unordered_map<uint64_t, Group> groups_;
  // Of lists whose tensors have names of their own: the lists, by the names of tensors.
  std::unordered_map<std::string, std::vector<Tally*>> lists_with_;
  std::vector<std::string> unlisted_in_full_;
  uint64_t unlisted_ = 0;
  std::vector<Tally*> pending_;
  std::vector<Tally*> ready_;
  std::vector<bool> joined_;
  std::vector<Spans> waited_for_;
  NamedSets named_sets_;
  bool watching_ = false;
  std::vector<Arrival> arrivals_;
  int joined_count_ = 0;
  int last_joined_ = -1;
  uint64_t next_slot_ = 1;
  uint64_t round_ = 0;
};

}  // namespace hvdlite::engine
