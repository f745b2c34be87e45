#include "engine/process_set.h"

#include <algorithm>

namespace hvdlite::engine {

uint64_t ProcessSet::SlotOf(const Request& request, bool* same) const {
  const auto known = slot_of.find(request.name);
  *same = false;
  if (known == slot_of.end()) return kNoSlot;
  const Remembered& remembered = slots.at(known->second);
  *same = remembered.asked && remembered.mine.SameExceptName(request);
  return known->second;
}

const Remembered* ProcessSet::Recall(std::string_view name, uint64_t* slot) const {
  const auto known = slot_of.find(name);
  if (known == slot_of.end()) return nullptr;
  *slot = known->second;
  const Remembered& remembered = slots.at(known->second);
  return remembered.asked ? &remembered : nullptr;
}

bool ProcessSet::Remember(Response* response) {
  if (response->cached) {
    const auto known = slots.find(response->slot);
    if (known == slots.end()) return false;
    response->agreed = known->second.agreed;
    ++known->second.rounds;
    return true;
  }
  const Request& agreed = response->agreed->request;
  if (remembers && !agreed.cacheable) unnamed.Performed(agreed);
  if (response->slot == kNoSlot) return true;
  const std::string& name = response->agreed->request.name;
  Entry* const entry = inbox.Find(name);
  Remembered& remembered = slots[response->slot];
  remembered.agreed = response->agreed;
  ++remembered.rounds;
  // A joined rank asked for nothing. It sends a later request in full.
  remembered.asked = entry != nullptr;
  remembered.mine = entry != nullptr ? entry->request : Request();
  remembered.mine.name = name;
  slot_of[name] = response->slot;
  return true;
}

uint64_t ProcessSet::Rounds(std::string_view name) const {
  const auto known = slot_of.find(name);
  return known == slot_of.end() ? 0 : slots.at(known->second).rounds;
}

uint64_t ProcessSet::Steps() const {
  uint64_t most = 0;
  for (const auto& [slot, remembered] : slots) most = std::max(most, remembered.rounds);
  return most;
}

void ProcessSet::Announced(Entry* entry) {
  entry->undecided = true;
  if (++undecided == 1 && group->fast_exchange != nullptr) group->fast_exchange->SetElsewhere(true);
}

void ProcessSet::Decided(Entry* entry) {
  if (entry == nullptr || !entry->undecided) return;
  entry->undecided = false;
  if (--undecided == 0 && group->fast_exchange != nullptr)
    group->fast_exchange->SetElsewhere(false);
}

bool ProcessSet::Keeps(const Readiness& readiness, Nanos now, bool waited_for) {
  return gathering.Keeps(readiness, now, [&] {
    // A program that waits for the last of many results waits for all of them. One that waits for a
    // single result may have more work for the device.
    if (waited_for && !readiness.more) return false;
    const Entry* const entry = inbox.Find(readiness.ready[0]->name);
    // A callback's submitter may wait in a way of its own.
    if (entry == nullptr || entry->handle->wants_telling()) return false;
    if (in_flight.busy()) return true;
    return std::any_of(entry->ready.begin(), entry->ready.end(), [](const auto& event) {
      bool fired = false;
      return event->Query(&fired).ok() && !fired;
    });
  });
}

void ProcessSet::Forget(uint64_t slot) {
  const auto known = slots.find(slot);
  if (known == slots.end()) return;
  slot_of.erase(known->second.mine.name);
  slots.erase(known);
}

}  // namespace hvdlite::engine
