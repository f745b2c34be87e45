#include "comm/mpi/rounds.h"

#include <algorithm>

namespace hvdlite::comm::mpi {

Rounds::~Rounds() {
  // The operation was abandoned. Buffers that MPI may still write to end with the channel.
  if (ended_) return;
  for (size_t i = 0; i < count_; ++i) slots_[active_[i].round % kDepth].reset();
}

Status Rounds::Begin(Active* active) {
  Slot& slot = SlotOf(active->round);
  slot.Reset();
  return Post(active->round, active->phase, &slot);
}

// Bounded: finishes at most one phase of a round, which is about one chunk to sum.
Status Rounds::Turn(bool* moved) {
  while (begun_ < rounds_ && count_ < kDepth) {
    active_[count_] = {begun_++, 0};
    *moved = true;
    HVDLITE_RETURN_IF_ERROR(Begin(&active_[count_++]));
  }
  for (size_t i = 0; i < count_; ++i) {
    Active& active = active_[i];
    Slot& slot = SlotOf(active.round);
    bool done = false;
    HVDLITE_RETURN_IF_ERROR(slot.Test(&done));
    *moved |= slot.Moved();
    if (!done) continue;
    // Each phase begins in the order of the rounds; otherwise messages of two rounds could be
    // confused. Rounds end in their order, too, because slots are used in turn.
    if (i > 0 && active_[i - 1].phase <= active.phase) continue;
    const bool last = active.phase + 1 == phases_;
    if (last && i > 0) continue;
    slot.Scatter();
    Finish(active.round, active.phase, &slot);
    *moved = true;
    if (last) {
      std::move(active_.begin() + 1, active_.end(), active_.begin());
      --count_;
    } else {
      ++active.phase;
      return Begin(&active);
    }
    return Status::Ok();
  }
  return Status::Ok();
}

Progress Rounds::Advance() {
  bool moved = false;
  Status status = Turn(&moved);
  if (!status.ok()) return Fail(std::move(status));
  if (begun_ == rounds_ && count_ == 0) {
    ended_ = true;
    return Progress::kDone;
  }
  return moved ? Progress::kSome : Progress::kNone;
}

}  // namespace hvdlite::comm::mpi
