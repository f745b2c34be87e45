#include "engine/meetings.h"

#include <algorithm>
#include <cstring>

#include "comm/shm/sources.h"
#include "engine/execute/prepare.h"

namespace hvdlite::engine {
namespace {

using comm::shm::Meeting;

// DECIDES. Whether the caller asks for what this rank has asked for before.
bool IsSame(const Request& before, const Familiar& asked) {
  return before.kind == OpKind::kAllreduce && before.op == asked.op &&
         asked.op != ReduceOp::kAdasum && before.dtype == asked.dtype &&
         before.device == DeviceKind::kHost && before.group == 0 && !before.codec.encodes() &&
         before.taken == 0 && before.prescale == asked.prescale &&
         before.postscale == asked.postscale &&
         before.shape.size() == static_cast<size_t>(asked.dimensions) &&
         std::equal(before.shape.begin(), before.shape.end(), asked.shape);
}

// Combines the members' tensors in their order, as every other algorithm does.
void Reduce(const Meeting& meeting, const Request& request, const Familiar& asked) {
  const int members = meeting.members();
  comm::shm::Sources sources(members);
  for (int m = 0; m < members; ++m) sources[m] = meeting.Tensor(m, asked.bytes);
  kernels::Reduce(ReductionOf(request, members), asked.output, nullptr, sources.data(), members,
                  static_cast<int64_t>(asked.bytes / SizeOf(request.dtype)));
}

}  // namespace

bool Meetings::Perform(int id, const Familiar& asked) {
  if (asked.bytes > Meeting::kMostBytes || !turn_.TakeIfIdle()) return false;
  bool met = false;
  const Nanos now = MonotonicNow();
  turn_.TickIfDue(now);
  for (const ProcessSetPtr& set : sets_.mine()) {
    if (set->id == id) met = PerformIn(set.get(), asked, now);
  }
  turn_.Return();
  return met;
}

bool Meetings::PerformIn(ProcessSet* set, const Familiar& asked, Nanos now) {
  Meeting* const meeting = set->group->meeting.get();
  if (meeting == nullptr || !set->idle() || life_.ended() || life_.agreed() || life_.leaving() ||
      observer_.watches_arrivals())
    return false;
  uint64_t slot = kNoSlot;
  const Remembered* const before = set->Recall(asked.name, &slot);
  if (before == nullptr || !IsSame(before->mine, asked)) return false;
  // A member that negotiates comes to no meeting before it is done.
  if (meeting->SomeElsewhere()) return false;
  jitter_();
  memcpy(meeting->Tensor(meeting->me(), asked.bytes), asked.input, asked.bytes);
  bool complete = meeting->Arrive({slot, set->epoch});
  if (!complete) {
    jitter_();
    turn_.PauseUntil([&] {
      complete = meeting->Complete();
      return complete || meeting->SomeElsewhere();
    });
    if (!complete && meeting->Withdraw()) return false;
  }
  const bool agrees = meeting->Agrees();
  if (agrees) Reduce(*meeting, before->mine, asked);
  meeting->Conclude();
  if (!agrees) return false;
  const Nanos done = MonotonicNow();
  turn_.SubmittedAndDone(done);
  world_->CountMeeting(before->mine.kind);
  ++before->rounds;
  observer_.Met(*set, before->mine, asked.bytes, now, done);
  return true;
}

}  // namespace hvdlite::engine
