// Pipeline: the steps that all shared-memory algorithms share.
//
//   step           0      1      2      3
//   copy in      [ 0 ]  [ 1 ]  [ 2 ]  [ 3 ]              my data -> my slot, posts `in`
//   reduce              [ 0 ]  [ 1 ]  [ 2 ]  [ 3 ]       share of all slots -> my slot, posts `mid`
//   copy out                   [ 0 ]  [ 1 ]  [ 2 ] ...   all slots -> my result, posts `out`
//
// A step is one chunk. Copy-in of step s waits until no member reads slot s - kSlots any more
// (`out`), the reduction until all have copied in, and copy-out until all have reduced. An
// algorithm without a reduction omits that phase.
//
// A subclass implements the phases. The batches of a set follow one another without a barrier: each
// operation takes the next `steps` steps, the same number on all members. Flags are absolute. An
// operation that omits a phase need not post its flag; the next operation that has the phase posts
// a higher count.
#pragma once

#include "comm/communicator.h"
#include "comm/shm/region.h"

namespace hvdlite::comm::shm {

// Pieces begin on cache lines of the slots.
constexpr size_t kLine = 64;

class Pipeline : public Work {
 public:
  Progress Advance() final;

 protected:
  // `steps` must be equal on all members.
  Pipeline(Region* region, uint64_t steps, bool has_reduction)
      : region_(region), first_(region->next_step), steps_(steps), has_reduction_(has_reduction) {
    region->next_step += steps;
  }

  virtual void CopyIn(uint64_t step, char* my_slot) = 0;
  virtual void Reduce(uint64_t step) { (void)step; }
  virtual void CopyOut(uint64_t step) = 0;

  // The slot of `member` for this operation's step number `step`.
  char* Slot(int member, uint64_t step) const { return region_->Slot(member, first_ + step); }
  Region& region() const { return *region_; }
  uint64_t steps() const { return steps_; }

 private:
  bool AdvanceIn();
  bool AdvanceMid();
  bool AdvanceOut();

  Region* const region_;
  const uint64_t first_;  // the region's step number of our step 0
  const uint64_t steps_;
  const bool has_reduction_;
  uint64_t in_ = 0;   // steps copied in
  uint64_t mid_ = 0;  // steps reduced
  uint64_t out_ = 0;  // steps copied out
};

}  // namespace hvdlite::comm::shm
