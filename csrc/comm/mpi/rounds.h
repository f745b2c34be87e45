// Rounds: an operation cut into steps that are alike, a few of them under way at once.
//
//   round 0   | phase 0: post, test ... | phase 1: post, test ... |
//   round 1            | phase 0 ...             | phase 1 ...    |
//   round 2                                                | phase 0 ...
//
// While one round's messages travel, another one's are summed. All members have the same rounds in
// the same order, so the messages between two of them match by their order alone; phases are told
// apart by the tag.
#pragma once

#include <array>
#include <memory>

#include "comm/communicator.h"
#include "comm/mpi/channel.h"

namespace hvdlite::comm::mpi {

// How many rounds are under way at once.
constexpr size_t kDepth = 3;
using Slots = std::array<std::unique_ptr<Slot>, kDepth>;

class Rounds : public Work {
 public:
  // `slots` belong to the communicator, whose memory outlives one operation; idle.
  Rounds(Slots* slots, size_t rounds, int phases)
      : slots_(*slots), rounds_(rounds), phases_(phases) {}
  ~Rounds() override;
  Progress Advance() final;

 protected:
  // Posts what the phase of the round needs.
  virtual Status Post(size_t round, int phase, Slot* slot) = 0;
  // All of it has arrived and left.
  virtual void Finish(size_t round, int phase, Slot* slot) = 0;

 private:
  struct Active {
    size_t round;
    int phase;
  };
  Slot& SlotOf(size_t round) const { return *slots_[round % kDepth]; }
  Status Begin(Active* active);
  Status Turn(bool* moved);

  Slots& slots_;
  const size_t rounds_;
  const int phases_;
  size_t begun_ = 0;
  std::array<Active, kDepth> active_{};  // the first `count_` of them, oldest first
  size_t count_ = 0;
  bool ended_ = false;
};

}  // namespace hvdlite::comm::mpi
