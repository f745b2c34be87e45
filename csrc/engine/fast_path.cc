#include "engine/fast_path.h"

#include <algorithm>
#include <cstring>

#include "comm/shm/sources.h"
#include "engine/execute/prepare.h"

namespace hvdlite::engine {
namespace {

using comm::shm::FastExchange;

// DECIDES. Whether the caller asks for what this rank has asked for before.
bool IsSame(const Request& before, const KnownOperation& asked) {
  return before.kind == OpKind::kAllreduce && before.op == asked.op &&
         asked.op != ReduceOp::kAdasum && before.dtype == asked.dtype &&
         before.device == DeviceKind::kHost && before.group == 0 && !before.codec.encodes() &&
         before.taken == 0 && before.prescale == asked.prescale &&
         before.postscale == asked.postscale &&
         before.shape.size() == static_cast<size_t>(asked.dimensions) &&
         std::equal(before.shape.begin(), before.shape.end(), asked.shape);
}

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
  const Remembered* const before = set->Recall(asked.name, &slot);
  if (before == nullptr || !IsSame(before->mine, asked)) return false;
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
  if (agrees) Reduce(*exchange, before->mine, asked);
  exchange->Conclude();
  if (!agrees) return false;
  const Nanos done = MonotonicNow();
  turn_.SubmittedAndDone(done);
  world_->CountFastPath(before->mine.kind);
  ++before->rounds;
  observer_.TookFastPath(*set, before->mine, asked.bytes, now, done);
  return true;
}

}  // namespace hvdlite::engine
