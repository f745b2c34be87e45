// A relay of the negotiation tree bundles announcements: "slot s" from each member below it becomes
// one "slot s from all of us", unless one of them will not announce it this time.
#include "engine/negotiate/agree.h"

namespace hvdlite::engine {
Status Agreement::CountSlot(int member, uint64_t slot, Nanos now) {
  if (is_root())
    return ledger_.AddCached(member, slot, now) ? Status::Ok() : Nonsense(ranks_[member]);
  if (below_ == 1 || joined_below_) {
    PassOnSlot(Up::kCached, member, slot);
    return Status::Ok();
  }
  Partial& partial = partials_[slot];
  if (partial.members.empty() && partial.declined == 0) {
    partial.since = now;
    partial.spelled_out |= watching_;
  }
  partial.members.push_back(member);
  if (partial.spelled_out) {
    PassOnSlot(Up::kCached, member, slot);
  } else if (partial.members.size() == below_) {
    PassOnSlot(Up::kCachedBySubtree, me_, slot);
  }
  EndRoundIfComplete(slot, &partial);
  return Status::Ok();
}

void Agreement::PassOnSlot(Up what, int member, uint64_t slot) {
  Writer& out = UpFor(member);
  out.U8(static_cast<uint8_t>(what));
  out.Varint(slot);
}

void Agreement::EndRoundIfComplete(uint64_t slot, Partial* partial) {
  if (partial->members.size() + partial->declined < below_) return;
  if (partial->forgotten == 0) {
    partials_.erase(slot);
  } else {
    partial->members.clear();
    partial->declined = 0;
  }
}

void Agreement::SpellOut(uint64_t slot, Partial* partial) {
  if (partial->spelled_out) return;
  partial->spelled_out = true;
  for (int member : partial->members) PassOnSlot(Up::kCached, member, slot);
}

// A member asks in full for the operation of a slot. So the subtree will not be complete this time,
// and members that have announced the slot must not be kept waiting. Every relay on the way to the
// root must know; the root itself does not need to.
void Agreement::PassOnUncached(int member, uint64_t slot, Nanos now) {
  if (below_ > 1 && !joined_below_) {
    Partial& partial = partials_[slot];
    if (partial.members.empty() && partial.declined == 0) partial.since = now;
    SpellOut(slot, &partial);
    ++partial.declined;
    EndRoundIfComplete(slot, &partial);
  }
  PassOnSlot(Up::kUncached, member, slot);
}

// The root knows what an evicted slot stood for only until the last member has forgotten it. So
// announcements must be passed on before that, and from now on at once.
void Agreement::PassOnEvicted(int member, uint64_t slot) {
  if (below_ > 1) {
    Partial& partial = partials_[slot];
    SpellOut(slot, &partial);
    if (++partial.forgotten == below_) partials_.erase(slot);
  }
  PassOnSlot(Up::kEvicted, member, slot);
}

// The root must know what a leaving member has announced before it leaves: those operations still
// happen.
void Agreement::PassOnShutdown(int member) {
  for (auto& [slot, partial] : partials_) SpellOut(slot, &partial);
  UpFor(member).U8(static_cast<uint8_t>(Up::kShutdown));
}

// Until all members have joined, no subtree with a joined member becomes complete.
void Agreement::NoteJoin(const Request& request) {
  if (request.kind != OpKind::kJoin || joined_below_) return;
  joined_below_ = true;
  for (auto& [slot, partial] : partials_) SpellOut(slot, &partial);
  std::erase_if(partials_, [](const auto& each) { return each.second.forgotten == 0; });
}

}  // namespace hvdlite::engine
