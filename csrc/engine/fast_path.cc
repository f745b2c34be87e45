#include "engine/fast_path.h"

#include <cstring>

#include "comm/shm/sources.h"
#include "engine/execute/prepare.h"

namespace hvdlite::engine {
namespace {

using comm::shm::FastExchange;

// Combines the members' tensors in their order, as every other algorithm does.
void Reduce(const FastExchange& exchange, const Request& request, const KnownOperation& asked) {
  const int members = exchange.members();
  comm::shm::Sources sources(members);
  for (int m = 0; m < members; ++m) sources[m] = exchange.Tensor(m, asked.bytes);
  kernels::Reduce(ReductionOf(request, members), asked.output, nullptr, sources.data(), members,
                  static_cast<int64_t>(asked.bytes / SizeOf(request.dtype)));
}

}  // namespace

bool FastPath::Perform(int id, const KnownOperation& asked) {
  if (asked.bytes > FastExchange::kMostBytes || !turn_.TakeIfIdle()) return false;
  bool performed = false;
  const Nanos now = MonotonicNow();
  turn_.TickIfDue(now);
  for (const ProcessSetPtr& set : sets_.mine()) {
    if (set->id == id) performed = PerformIn(set.get(), asked, now);
  }
  turn_.Return();
  return performed;
}

bool FastPath::PerformIn(ProcessSet* set, const KnownOperation& asked, Nanos now) {
  FastExchange* const exchange = set->group->fast_exchange.get();
  if (exchange == nullptr || !set->idle() || life_.ended() || life_.agreed() || life_.leaving() ||
      observer_.watches_arrivals())
    return false;
  uint64_t slot = kNoSlot;
  const Remembered* const named = asked.name.empty() ? nullptr : set->Recall(asked.name, &slot);
  if (named != nullptr && !IsSame(named->mine, asked)) return false;
  const Request* before = named != nullptr ? &named->mine : nullptr;
  if (asked.name.empty()) before = set->unnamed.Find(asked, &slot);
  if (before == nullptr) return false;
  // A member that negotiates arrives at no exchange before it is done.
  if (exchange->SomeElsewhere()) return false;
  jitter_();
  memcpy(exchange->Tensor(exchange->me(), asked.bytes), asked.input, asked.bytes);
  bool complete = exchange->Arrive({slot, set->epoch});
  if (!complete) {
    jitter_();
    turn_.PauseUntil([&] {
      complete = exchange->Complete();
      return complete || exchange->SomeElsewhere();
    });
    if (!complete && exchange->Withdraw()) return false;
  }
  const bool agrees = exchange->Agrees();
  if (agrees) Reduce(*exchange, *before, asked);
  exchange->Conclude();
  if (!agrees) return false;
  const Nanos done = MonotonicNow();
  turn_.SubmittedAndDone(done);
  world_->CountFastPath(before->kind);
  if (named != nullptr) ++named->rounds;
  observer_.TookFastPath(*set, *before, asked.bytes, now, done);
  return true;
}

}  // namespace hvdlite::engine
