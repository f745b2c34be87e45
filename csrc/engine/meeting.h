// Meeting: the two members of a process set, on two hosts, perform a small blocking allreduce with
// one message each way (fast_path.h). DECIDES; the only thing that it touches is the result.
//
//   offer    "I perform this now, and here is my tensor". It is a promise and cannot be taken back
//   decline  "not now". A member that has not come says so in its place, and need not say why
//   round    one message of each member. Two offers with the same topic: both perform it. Anything
//            else: nothing has happened, and a member that has offered negotiates
//
// Messages arrive in order and none is lost, so both members see the same two messages of a round,
// and know the same about it. A member that waits depends on the other's next message alone: a
// member that is late declines (MustDecline), and one that is dead or frozen breaks the link.
//
// Thread-safety: one thread at a time (the holder of the engine's turn).
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "comm/shm/fast_exchange.h"
#include "kernels/reduce.h"

namespace hvdlite::engine {

class Meeting {
 public:
  static constexpr size_t kMostBytes = 64 << 10;  // of a tensor
  // A member that comes later than this after the other lets it negotiate, so that stall reports
  // name it.
  static constexpr Nanos kPatience = 100 * kMillisecond;

  using Topic = comm::shm::FastExchange::Topic;
  // What this member brings. Memory is borrowed until the offer has an end.
  struct Part {
    Topic topic;
    kernels::ReduceSpec reduction;
    const void* input = nullptr;
    void* output = nullptr;
    size_t bytes = 0;
  };
  // Of this member's offer.
  enum class End : uint8_t { kNoOffer, kOpen, kPerformed, kVoid };

  // `me`: 0 or 1.
  explicit Meeting(int me) : me_(me) {}

  // Whether this member has no offer, and the last few rounds were not all in vain. Each call
  // counts.
  bool MayOffer();
  // Send the same to the other member.
  void Offer(const Part& part);
  void Decline();
  // What the other member has sent. Returns false if it cannot have sent that.
  bool Heard(Topic topic, std::string_view tensor, Nanos now);
  bool HeardDecline();

  // The other has come and this member has not. `busy`: it negotiates, or will not take part.
  bool MustDecline(bool busy, Nanos now) const {
    return mine_ == Said::kNothing && theirs_ == Said::kOffer &&
           (busy || now - heard_at_ >= kPatience);
  }
  End end() const { return end_; }
  // Returns the end and forgets the offer. Call when it has one.
  End TakeEnd();
  // The call that has offered ends in another way. The offer stays a promise.
  void Abandon();

 private:
  enum class Said : uint8_t { kNothing, kOffer, kDecline };

  void EndIfBothHaveSpoken(std::string_view theirs);

  const int me_;
  // The present round.
  Said mine_ = Said::kNothing;
  Said theirs_ = Said::kNothing;
  Topic their_topic_;
  std::vector<char> their_tensor_;  // that came first
  Nanos heard_at_ = 0;
  // This member's offer, of the present round or of one before.
  End end_ = End::kNoOffer;
  Part part_;
  bool abandoned_ = false;
  // Rounds in vain since the last that was not, and how many operations to negotiate at once.
  int in_vain_ = 0;
  int rest_ = 0;
};

}  // namespace hvdlite::engine
