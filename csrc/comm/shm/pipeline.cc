#include "comm/shm/pipeline.h"

namespace hvdlite::comm::shm {

bool Pipeline::AdvanceIn() {
  if (in_ == steps_) return false;
  const uint64_t step = first_ + in_;
  // One step ahead of the reduction keeps both caches and peers busy. More would only evict what is
  // needed next.
  if (in_ > out_ + 1) return false;
  if (step >= Region::kSlots && !region_->AllReached(Flag::kOut, step + 1 - Region::kSlots))
    return false;
  CopyIn(in_, Slot(region_->me(), in_));
  ++in_;
  region_->Post(Flag::kIn, first_ + in_);
  return true;
}

bool Pipeline::AdvanceMid() {
  if (mid_ == in_ || !region_->AllReached(Flag::kIn, first_ + mid_ + 1)) return false;
  Reduce(mid_);
  ++mid_;
  region_->Post(Flag::kMid, first_ + mid_);
  return true;
}

bool Pipeline::AdvanceOut() {
  if (has_reduction_) {
    if (out_ == mid_ || !region_->AllReached(Flag::kMid, first_ + out_ + 1)) return false;
  } else {
    if (out_ == in_ || !region_->AllReached(Flag::kIn, first_ + out_ + 1)) return false;
  }
  CopyOut(out_);
  ++out_;
  region_->Post(Flag::kOut, first_ + out_);
  return true;
}

Progress Pipeline::Advance() {
  bool moved = AdvanceIn();
  if (has_reduction_) moved |= AdvanceMid();
  moved |= AdvanceOut();
  if (out_ == steps_) return Progress::kDone;
  return moved ? Progress::kSome : Progress::kNone;
}

}  // namespace hvdlite::comm::shm
