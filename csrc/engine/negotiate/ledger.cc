#include "engine/negotiate/ledger.h"

#include <algorithm>
#include <unordered_set>

#include "engine/list.h"
#include "engine/negotiate/validate.h"
#include "engine/shapes.h"

namespace hvdlite::engine {

Tally* Ledger::Find(const std::string& name) {
  std::unique_ptr<Tally>& tally = by_name_[name];
  if (tally == nullptr) {
    tally = std::make_unique<Tally>();
    tally->presence.assign(static_cast<size_t>(members_), Presence::kMissing);
  }
  return tally.get();
}

void Ledger::BeginRound(Tally* tally, int member, const Request& request, Nanos now) {
  tally->first_member = member;
  tally->since = now;
  tally->draft.reset();
  tally->dissent.clear();
  tally->refusal = Status::Ok();
  tally->pending_index = pending_.size();
  pending_.push_back(tally);
  if (request.names != nullptr) Register(tally, request);
  CountAlone(request, +1);
  const bool among_named = Has(request.kind, kAmongNamed);
  if (joined_count_ == 0 && !among_named) return;
  for (int m = 0; m < members_; ++m) {
    const bool outside = among_named && !IsNamed(request, m);
    if (!outside && !joined_[static_cast<size_t>(m)]) continue;
    tally->presence[static_cast<size_t>(m)] = outside ? Presence::kOutside : Presence::kJoined;
    ++tally->present;
  }
}

void Ledger::RemovePending(Tally* tally) {
  pending_[tally->pending_index] = pending_.back();
  pending_[tally->pending_index]->pending_index = tally->pending_index;
  pending_.pop_back();
  tally->pending_index = SIZE_MAX;
  CountAlone(tally->said(), -1);
}

// Counts a request in full. Its round has begun.
void Ledger::Record(Tally* tally, int member, Request request) {
  if (!tally->draft) {
    // From here on the slot no longer says everything. Write down the requests that came by slot.
    tally->draft.emplace();
    Tally::Draft& draft = *tally->draft;
    tally->first_member = -1;
    const auto begin = [&](int first_member, const Request& first) {
      tally->first_member = first_member;
      draft.first = first;
      draft.rows.assign(RowCount(first.kind, members_), 0);
    };
    for (int m = 0; m < members_; ++m) {
      if (tally->presence[static_cast<size_t>(m)] != Presence::kAsked) continue;
      const Request said = RequestOf(*tally->remembered, m, members_);
      if (tally->first_member < 0) begin(m, said);
      PutRows(said, m, members_, &draft.rows);
    }
    if (tally->first_member < 0) begin(member, request);
  }
  if (Agrees(tally->draft->first, request)) {
    PutRows(request, member, members_, &tally->draft->rows);
  } else {
    tally->dissent.emplace_back(member, std::move(request));
  }
}

void Ledger::MarkPresent(Tally* tally, int member, Presence presence) {
  tally->presence[static_cast<size_t>(member)] = presence;
  if (++tally->present < members_) return;
  RemovePending(tally);
  const Request& said = tally->said();
  if (said.group == 0 || said.is_list()) {
    ready_.push_back(tally);
    return;
  }
  Group& group = groups_[said.group];
  group.ready.push_back(tally);
  if (group.ready.size() < said.group_size) return;
  ready_.insert(ready_.end(), group.ready.begin(), group.ready.end());
  groups_.erase(said.group);
}

void Ledger::MarkAsked(Tally* tally, int member, Nanos now) {
  if (watching_) {
    const Request& said = tally->said();
    for (size_t i = 0; i < TensorsOf(said); ++i)
      arrivals_.push_back({TensorName(said, i), said.kind, member, now});
  }
  MarkPresent(tally, member, Presence::kAsked);
  if (tally->present == members_) waited_for_[static_cast<size_t>(member)].Add(tally->since, now);
}

bool Ledger::Add(int member, Request request, Nanos now) {
  if (request.kind == OpKind::kJoin) {
    if (joined_[static_cast<size_t>(member)]) return false;
    Join(member);
    return true;
  }
  if (!IsPossible(request, members_)) return false;
  // A joined member sends no requests, and a member that has asked waits. A refused member begins
  // no round.
  if (joined_[static_cast<size_t>(member)]) return false;
  const bool among_named = Has(request.kind, kAmongNamed);
  if (among_named && !IsNamed(request, member)) return false;
  Tally* tally = Find(request.name);
  const bool begins = tally->present == 0;
  if (begins) BeginRound(tally, member, request, now);
  if (tally->presence[static_cast<size_t>(member)] != Presence::kMissing) return false;
  const Status wrong = among_named ? named_sets_.Judge(member, request) : Status::Ok();
  if (tally->pending_index == SIZE_MAX) {
    if (tally->refusal.ok()) return false;
    tally->presence[static_cast<size_t>(member)] = Presence::kAsked;  // it gets the same error
    return true;
  }
  Record(tally, member, std::move(request));
  MarkAsked(tally, member, now);
  if (begins) UnlistRelatives(tally);
  if (!wrong.ok()) {
    Refuse(tally, wrong);
  } else if (among_named) {
    RefuseIfContradicted(tally);
  }
  return true;
}

void Ledger::Refuse(Tally* tally, const Status& why) {
  if (tally->refusal.ok()) tally->refusal = why;
  if (tally->pending_index == SIZE_MAX) return;  // all its members have asked: it is ready already
  RemovePending(tally);
  ready_.push_back(tally);
}

void Ledger::RefuseIfContradicted(Tally* tally) {
  const std::vector<Tally*> pending = pending_;  // Refuse removes from it
  for (Tally* other : pending) {
    if (other == tally || !Contradict(other->said(), tally->said())) continue;
    const Status why = Contradiction(*other, *tally);
    named_sets_.HaveFailed(*other, *tally, why);
    Refuse(other, why);
    Refuse(tally, why);
  }
}

bool Ledger::AddCached(int member, uint64_t slot, Nanos now) {
  const auto found = slots_.find(slot);
  if (found == slots_.end()) {
    // The number crossed its own eviction on the way. The request that it stands for is still
    // known.
    const auto evicted = evicted_.find(slot);
    if (evicted == evicted_.end()) return false;
    return Add(member, RequestOf(*evicted->second.tally->remembered, member, members_), now);
  }
  if (joined_[static_cast<size_t>(member)]) return false;
  Tally* tally = found->second;
  const bool begins = tally->present == 0;
  if (begins) BeginRound(tally, member, tally->remembered->request, now);
  if (tally->presence[static_cast<size_t>(member)] != Presence::kMissing ||
      tally->pending_index == SIZE_MAX)
    return false;
  if (tally->draft) Record(tally, member, RequestOf(*tally->remembered, member, members_));
  MarkAsked(tally, member, now);
  if (begins) UnlistRelatives(tally);
  return true;
}

void Ledger::Join(int member) {
  joined_[static_cast<size_t>(member)] = true;
  ++joined_count_;
  last_joined_ = member;
  // MarkPresent removes completed tallies from pending_, so iterate over a copy.
  const std::vector<Tally*> pending = pending_;
  for (Tally* tally : pending) {
    if (tally->presence[static_cast<size_t>(member)] == Presence::kMissing)
      MarkPresent(tally, member, Presence::kJoined);
  }
}

int Ledger::TakeLastJoined() {
  if (joined_count_ < members_) return -1;
  std::fill(joined_.begin(), joined_.end(), false);
  joined_count_ = 0;
  return std::exchange(last_joined_, -1);
}

std::vector<Tally*> Ledger::TakeReady() {
  if (!unlisted_in_full_.empty()) ForgetLists();
  for (Tally* tally : ready_) {
    if (!tally->draft) {
      tally->agreed = tally->remembered;
      continue;
    }
    tally->agreed = std::make_shared<const Agreed>(
        Agreed{std::move(tally->draft->first), std::move(tally->draft->rows)});
    tally->draft.reset();
  }
  return std::exchange(ready_, {});
}

void Ledger::UnlistGroupsThatOthersDoNotList() {
  std::unordered_set<uint64_t> singly;
  for (const Tally* tally : pending_) {
    if (!tally->said().is_list() && tally->said().group != 0) singly.insert(tally->said().group);
  }
  const std::vector<Tally*> pending = pending_;  // Unlist changes it
  for (Tally* tally : pending) {
    if (tally->said().is_list() && singly.count(tally->said().group) > 0) Unlist(tally);
  }
}

void Ledger::UnlistRelatives(Tally* tally) {
  if (lists_with_.empty()) return;
  const auto pends = [](const Tally* other) { return other->pending_index != SIZE_MAX; };
  if (tally->names != nullptr) {
    const std::vector<Tally*>& others = tally->relatives;
    if (pends(tally) &&
        (tally->pending_alone > 0 || std::any_of(others.begin(), others.end(), pends)))
      Unlist(tally);
    return;
  }
  const auto found = lists_with_.find(tally->said().name);
  if (found == lists_with_.end()) return;
  const std::vector<Tally*> lists = found->second;  // none is deleted before TakeReady
  for (Tally* list : lists) {
    if (pends(list)) Unlist(list);
  }
}

void Ledger::CountAlone(const Request& request, int change) {
  if (lists_with_.empty() || request.is_list()) return;
  const auto found = lists_with_.find(request.name);
  if (found == lists_with_.end()) return;
  for (Tally* list : found->second) list->pending_alone += static_cast<size_t>(change);
}

void Ledger::Register(Tally* list, const Request& request) {
  if (list->names == request.names || (list->names != nullptr && *list->names == *request.names))
    return;
  Unregister(list);
  list->names = request.names;
  for (const std::string& name : *list->names) {
    std::vector<Tally*>& with = lists_with_[name];
    for (Tally* other : with) {
      if (std::find(list->relatives.begin(), list->relatives.end(), other) != list->relatives.end())
        continue;
      list->relatives.push_back(other);
      other->relatives.push_back(list);
    }
    with.push_back(list);
    const auto alone = by_name_.find(name);
    if (alone != by_name_.end() && alone->second->pending_index != SIZE_MAX) ++list->pending_alone;
  }
}

void Ledger::Unregister(Tally* list) {
  if (list->names == nullptr) return;
  for (const std::string& name : *list->names) {
    const auto found = lists_with_.find(name);
    std::erase(found->second, list);
    if (found->second.empty()) lists_with_.erase(found);
  }
  for (Tally* other : list->relatives) std::erase(other->relatives, list);
  list->relatives.clear();
  list->names = nullptr;
  list->pending_alone = 0;
}

void Ledger::ForgetLists() {
  for (const std::string& name : std::exchange(unlisted_in_full_, {})) {
    const auto found = by_name_.find(name);
    if (found == by_name_.end() || found->second->present > 0 || found->second->slot != kNoSlot)
      continue;
    Unregister(found->second.get());
    by_name_.erase(found);
  }
}

void Ledger::Unlist(Tally* list) {
  ++unlisted_;
  std::vector<std::pair<int, Request>> asked = list->dissent;
  for (int m = 0; m < members_; ++m) {
    const bool dissents = std::any_of(asked.begin(), asked.end(),
                                      [m](const auto& other) { return other.first == m; });
    if (list->presence[static_cast<size_t>(m)] == Presence::kAsked && !dissents)
      asked.emplace_back(m, list->said());
  }
  const Nanos since = list->since;
  RemovePending(list);
  std::fill(list->presence.begin(), list->presence.end(), Presence::kMissing);
  list->present = 0;
  list->draft.reset();
  if (list->slot == kNoSlot) unlisted_in_full_.push_back(asked[0].second.name);
  const bool watched = std::exchange(watching_, false);  // its tensors have arrived already
  for (const auto& [member, request] : asked) {
    for (size_t i = 0; i < request.group_size; ++i) Add(member, InList(request, i), since);
  }
  watching_ = watched;
}

void Ledger::FindTornGroups() {
  UnlistGroupsThatOthersDoNotList();
  struct GroupSize {
    std::vector<Tally*> tallies;
    std::vector<uint32_t> sizes;   // per member: tensors in the group; 0: has not asked
    std::vector<uint32_t> counts;  // per member: tensors that it has asked for
  };
  const size_t members = static_cast<size_t>(members_);
  std::unordered_map<uint64_t, GroupSize> groups;
  for (Tally* tally : pending_) {
    const Request& said = tally->said();
    if (said.group == 0 || said.is_list()) continue;
    GroupSize& asked = groups[said.group];
    asked.sizes.resize(members);
    asked.counts.resize(members);
    asked.tallies.push_back(tally);
    for (size_t m = 0; m < members; ++m) {
      if (tally->presence[m] != Presence::kAsked) continue;
      asked.sizes[m] = said.group_size;
      ++asked.counts[m];
    }
  }
  for (const auto& [group, asked] : groups) {
    uint32_t some = 0;
    bool differ = false;
    bool complete = true;
    for (size_t m = 0; m < members; ++m) {
      if (joined_[m]) continue;
      complete &= asked.sizes[m] > 0 && asked.counts[m] == asked.sizes[m];
      differ |= some > 0 && asked.sizes[m] != some;
      some = asked.sizes[m];
    }
    if (!complete || !differ) continue;
    TearApart(asked.tallies, asked.sizes);
    groups_.erase(group);
  }
}

void Ledger::TearApart(const std::vector<Tally*>& tallies, const std::vector<uint32_t>& sizes) {
  for (Tally* tally : tallies) {
    for (int m = 0; m < members_; ++m) {
      Presence& presence = tally->presence[static_cast<size_t>(m)];
      if (presence != Presence::kMissing) continue;
      Request other = tally->said();
      other.group_size = sizes[static_cast<size_t>(m)];
      Record(tally, m, std::move(other));
      presence = Presence::kAsked;
      ++tally->present;
    }
    RemovePending(tally);
    ready_.push_back(tally);
  }
}

uint64_t Ledger::SlotFor(Tally* tally) {
  if (capacity_ == 0 || !tally->agreed->request.cacheable) return kNoSlot;
  if (tally->slot == kNoSlot) tally->slot = next_slot_++;
  return tally->slot;
}

void Ledger::Settle(Tally* tally, bool remember) {
  std::fill(tally->presence.begin(), tally->presence.end(), Presence::kMissing);
  tally->present = 0;
  const uint64_t slot = remember ? SlotFor(tally) : tally->slot;
  if (slot == kNoSlot || (!remember && slots_.find(slot) == slots_.end())) {
    Unregister(tally);
    by_name_.erase(std::string(tally->agreed->request.name));  // a copy: the tally goes with it
    return;
  }
  if (remember) {
    tally->remembered = std::move(tally->agreed);
    slots_[slot] = tally;
  }
  tally->agreed.reset();
  tally->last_used = ++round_;
}

std::vector<uint64_t> Ledger::TakeEvictions() {
  if (slots_.size() <= capacity_) return {};
  // Evict a tenth at a time, so that one search for the oldest serves many new names.
  std::vector<Tally*> idle;
  for (const auto& [slot, tally] : slots_) {
    if (tally->present == 0) idle.push_back(tally);
  }
  const size_t count = std::min(idle.size(), slots_.size() - capacity_ + capacity_ / 10);
  std::partial_sort(idle.begin(), idle.begin() + static_cast<long>(count), idle.end(),
                    [](const Tally* a, const Tally* b) { return a->last_used < b->last_used; });
  std::vector<uint64_t> out;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t slot = idle[i]->slot;
    const auto named = by_name_.find(idle[i]->remembered->request.name);
    Unregister(idle[i]);
    evicted_[slot] = Evicted{std::move(named->second), members_};
    by_name_.erase(named);
    slots_.erase(slot);
    out.push_back(slot);
  }
  return out;
}

void Ledger::Forgotten(uint64_t slot) {
  const auto found = evicted_.find(slot);
  if (found != evicted_.end() && --found->second.waiting_for == 0) evicted_.erase(found);
}

}  // namespace hvdlite::engine
