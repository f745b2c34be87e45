#include "engine/fast_path.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "comm/shm/sources.h"
#include "engine/execute/prepare.h"

namespace hvdlite::engine {
namespace {

using comm::shm::FastExchange;
using comm::shm::FastInPlace;

// Combines the members' tensors in their order, as every other algorithm does.
void Reduce(const FastExchange& exchange, const Request& request, const KnownOperation& asked) {
  const int members = exchange.members();
  comm::shm::Sources sources(members);
  for (int m = 0; m < members; ++m) sources[m] = exchange.Tensor(m, asked.bytes);
  kernels::Reduce(ReductionOf(request, members), asked.output, nullptr, sources.data(), members,
                  static_cast<int64_t>(asked.bytes / SizeOf(request.dtype)));
}

}  // namespace

bool FastPath::Perform(int id, const KnownOperation& asked, bool* offered) {
  *offered = false;
  if (asked.bytes > FastInPlace::kMostBytes || !turn_.TakeIfIdle()) return false;
  const Nanos now = MonotonicNow();
  turn_.TickIfDue(now);
  const auto& mine = sets_.mine();
  const auto found = std::find_if(mine.begin(), mine.end(),
                                  [&](const ProcessSetPtr& set) { return set->id == id; });
  const ProcessSetPtr set = found == mine.end() ? nullptr : *found;
  const bool performed = set != nullptr && PerformIn(set.get(), asked, now, offered);
  turn_.Return();
  return performed;
}

bool FastPath::PerformIn(ProcessSet* set, const KnownOperation& asked, Nanos now, bool* offered) {
  if (!set->has_fast_path() || asked.bytes > set->fast_bytes() || !set->idle() || Abstains())
    return false;
  Known known = Recall(*set, asked);
  if (known.request == nullptr) return false;
  bool performed = false;
  if (set->meets != nullptr) {
    performed = PerformInMeeting(set, known, asked, now, offered);
  } else if (asked.bytes <= FastExchange::kMostBytes) {
    performed = PerformInExchange(set, known, asked);
  } else {
    performed = PerformInPlace(set, &known, asked);
  }
  if (!performed) return false;
  if (known.named != nullptr) ++known.named->rounds;
  Performed(*set, *known.request, asked.bytes, now);
  return true;
}

FastPath::Known FastPath::Recall(const ProcessSet& set, const KnownOperation& asked) const {
  Known known;
  if (asked.name.empty()) {
    known.request = set.unnamed.Find(asked, &known.slot);
    return known;
  }
  known.named = set.Recall(asked.name, &known.slot);
  if (known.named != nullptr && IsSame(known.named->mine, asked))
    known.request = &known.named->mine;
  return known;
}

bool FastPath::Exchange(const ProcessSet& set, const Known& known) {
  FastExchange* const exchange = set.group->fast_exchange.get();
  if (exchange->Arrive({known.slot, set.epoch})) return true;
  jitter_();
  bool complete = false;
  turn_.PauseUntil([&] {
    complete = exchange->Complete();
    return complete || exchange->SomeElsewhere();
  });
  return complete || !exchange->Withdraw();
}

bool FastPath::PerformInExchange(ProcessSet* set, const Known& known, const KnownOperation& asked) {
  FastExchange* const exchange = set->group->fast_exchange.get();
  // A member that negotiates arrives at no exchange before it is done.
  if (exchange->SomeElsewhere()) return false;
  jitter_();
  memcpy(exchange->Tensor(exchange->me(), asked.bytes), asked.input, asked.bytes);
  if (!Exchange(*set, known)) return false;
  const bool agrees = exchange->Agrees();
  if (agrees) Reduce(*exchange, *known.request, asked);
  exchange->Conclude();
  return agrees;
}

bool FastPath::PerformInPlace(ProcessSet* set, Known* known, const KnownOperation& asked) {
  FastExchange* const exchange = set->group->fast_exchange.get();
  if (asked.input != asked.output || exchange->SomeElsewhere()) return false;
  FastInPlace place(exchange, set->group->shared, asked.bytes);
  if (!place.Lend(asked.output)) return false;
  jitter_();
  place.Offer();
  if (!Exchange(*set, *known)) return false;
  const bool agrees = exchange->Agrees();
  const Status accepted = agrees ? place.Accept() : Status::Ok();
  exchange->Conclude();
  if (!agrees) return false;
  if (!accepted.ok()) {
    world_->segment().SetAbort(accepted);
    return false;
  }
  jitter_();
  place.Reduce(ReductionOf(*known->request, exchange->members()));
  // All have come, so this takes as long as their shares. But one of them may have died, or stand
  // still: then the job fails, and so does the operation when it is submitted.
  while (!place.AllFinished()) {
    turn_.PauseUntil([&] { return place.AllFinished(); });
    if (place.AllFinished()) break;
    if (known->kept == nullptr) known->kept = std::make_unique<Request>(*known->request);
    known->request = known->kept.get();
    turn_.Work();
    known->named = Recall(*set, asked).named;
    if (life_.ended()) return false;
    if (set->group->fast_exchange == nullptr) {  // another thread has removed the set
      place.GiveUp();
      return false;
    }
  }
  world_->CountFastPath(comm::Carrier::kShmInPlace, known->request->kind);
  return true;
}

bool FastPath::PerformInMeeting(ProcessSet* set, const Known& known, const KnownOperation& asked,
                                Nanos now, bool* offered) {
  Meeting& meeting = set->meets->meeting;
  Status& status = set->meets->unheard;
  if (!set->heard.empty() || !status.ok() || !meeting.MayOffer()) return false;
  jitter_();
  status = set->agreement->ToOffer().Offer({{known.slot, set->epoch},
                                            ReductionOf(*known.request, 2),
                                            asked.input,
                                            asked.output,
                                            asked.bytes});
  jitter_();
  turn_.PauseUntil([&]() REQUIRES(turn_) {
    bool moved = false;
    if (status.ok() && meeting.end() == Meeting::End::kOpen)
      status = set->agreement->Exchange(now, &set->heard, &moved);
    return !status.ok() || meeting.end() != Meeting::End::kOpen;
  });
  *offered = meeting.end() == Meeting::End::kOpen;
  return !*offered && meeting.TakeEnd() == Meeting::End::kPerformed;
}

void FastPath::Abandon(int id) {
  turn_.Take();
  for (const ProcessSetPtr& set : sets_.mine()) {
    if (set->id == id) set->meets->meeting.Abandon();
  }
  turn_.Return();
}

Entry* FastPath::Resume(ProcessSet* set, Nanos now, bool* moved) {
  Meets& meets = *set->meets;
  Meeting& meeting = meets.meeting;
  // What is decided will happen without the other member's help.
  const bool negotiates = set->undecided > 0 && set->decided.empty();
  if (meeting.MustDecline(negotiates || Abstains(), now))
    meets.unheard = set->agreement->ToOffer().Decline();
  if (meets.offered == nullptr || meeting.end() == Meeting::End::kOpen) return nullptr;
  Entry* const entry = std::exchange(meets.offered, nullptr);
  *moved = true;
  entry->offered = false;
  if (meeting.TakeEnd() == Meeting::End::kVoid) {
    if (!entry->request.cacheable) set->inbox.GiveDefaultName(entry);
    set->fetched.push_back(entry);
    return nullptr;
  }
  uint64_t slot = kNoSlot;
  const Remembered* const named = set->Recall(entry->request.name, &slot);
  if (named != nullptr) ++named->rounds;
  Performed(*set, entry->request, entry->input.bytes(), entry->submitted);
  return entry;
}

void FastPath::Performed(const ProcessSet& set, const Request& request, size_t bytes, Nanos asked) {
  const comm::Carrier carrier =
      set.meets != nullptr ? comm::Carrier::kNetMeeting : comm::Carrier::kShmFastPath;
  const Nanos done = MonotonicNow();
  turn_.SubmittedAndDone(done);
  world_->CountFastPath(carrier, request.kind);
  observer_.TookFastPath(set, request, bytes, carrier, asked, done);
}

}  // namespace hvdlite::engine
