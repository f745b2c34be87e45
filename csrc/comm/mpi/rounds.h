// Rounds: an operation cut into equal steps, of which a few are in progress at once.
//
//   round 0   | phase 0: post, test ... | phase 1: post, test ... |
//   round 1            | phase 0 ...             | phase 1 ...    |
//   round 2                                                | phase 0 ...
//
// While one round's messages travel, another round's are summed. All members have the same rounds
// in the same order, so the messages between two members match by their order. The tag tells the
// phases apart.
#pragma once

#include <array>
#include <memory>

#include "comm/communicator.h"
#include "comm/mpi/channel.h"

namespace hvdlite::comm::mpi {

// The number of rounds in progress at once.
constexpr size_t kDepth = 3;
using Slots = std::array<std::unique_ptr<Slot>, kDepth>;

class Rounds : public Work {
 public:
  // `slots` are idle and belong to the communicator, whose memory outlives one operation.
  Rounds(Slots* slots, size_t rounds, int phases)
      : slots_(*slots), rounds_(rounds), phases_(phases) {}
  ~Rounds() override;
  Progress Advance() final;

 protected:
  // Posts the requests of a phase of the round.
  virtual Status Post(size_t round, int phase, Slot* slot) = 0;
  // Called when all of them have completed.
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
