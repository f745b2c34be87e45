// FastExchange: the members of a process set on one host hand their tensors over in one step,
// without negotiation (engine/fast_path.h).
//
//   each member   writes its offer (topic and tensor), then Arrive
//   Complete      all members have arrived: all offers can be read. From then on no member can
//                 withdraw
//   Withdraw      a member that will not wait any longer; fails if the exchange is complete
//   Conclude      the member has read the offers; the next exchange begins
//   Finish        where the offers are places in memory that all share (fast_in_place.h): this
//                 member no longer touches others' tensors
//
// One counter decides. Its value is the number of arrivals of all exchanges, so it passes a
// multiple of the members exactly when an exchange is complete, and all members learn the same.
//
// An offer has two places that the exchanges use in turn. A member writes its offer to exchange
// m + 2 only after exchange m + 1, and the others arrived there after they had read exchange m.
//
// A member says that it negotiates meanwhile (SetElsewhere), so that others need not wait for it.
// That is a hint: only the counter decides.
//
// Memory: members share it, and it is zero when first mapped. Thread-safety: one thread at a time
// (the holder of the engine's turn).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transport/shm/host_segment.h"

namespace hvdlite::comm::shm {

class FastExchange {
 public:
  static constexpr size_t kMostBytes = 16 << 10;  // of a tensor

  // What a member wants to do. The members agree if all topics are equal.
  struct Topic {
    uint64_t slot = 0;   // see engine/message.h
    uint64_t epoch = 0;  // decisions that the member has carried out: what its slots stand for
    bool operator==(const Topic&) const = default;
  };

  static size_t Footprint(int members);
  FastExchange(void* memory, int me, int members);

  int members() const { return members_; }
  int me() const { return me_; }

  // Where a member's tensor lies in this exchange.
  char* Tensor(int member, size_t bytes) const {
    return OfferOf(member).bytes + (bytes <= kInFirstLine ? 0 : kInFirstLine);
  }
  // Call after writing this member's tensor. Returns whether the exchange is complete.
  bool Arrive(Topic topic) {
    OfferOf(me_).topic = topic;
    return arrivals_->fetch_add(1, std::memory_order_acq_rel) + 1 >= Wanted();
  }
  bool Complete() const { return arrivals_->load(std::memory_order_acquire) >= Wanted(); }
  // Returns false if the exchange is complete: then this member takes part.
  bool Withdraw();
  // Whether all members have brought this member's topic. Only of a complete exchange.
  bool Agrees() const;
  void Conclude() { ++completed_; }

  // After an exchange in which all have agreed to finish.
  void Finish() {
    ++to_finish_;
    finishes_->fetch_add(1, std::memory_order_acq_rel);
  }
  bool AllFinished() const {
    return finishes_->load(std::memory_order_acquire) >=
           to_finish_ * static_cast<uint64_t>(members_);
  }

  // Whether this member negotiates an operation.
  void SetElsewhere(bool elsewhere) {
    elsewheres_[me_].yes.store(elsewhere, std::memory_order_release);
  }
  // Whether another member negotiates an operation.
  bool SomeElsewhere() const;

 private:
  static constexpr size_t kInFirstLine = 64 - sizeof(Topic);
  struct alignas(transport::shm::kPrivateLines) Offer {
    Topic topic;
    // Small tensors share the topic's cache line; others begin on the next one.
    char bytes[kInFirstLine + kMostBytes];
  };
  struct alignas(transport::shm::kPrivateLines) Elsewhere {
    std::atomic<bool> yes{false};
  };

  uint64_t Wanted() const { return (completed_ + 1) * static_cast<uint64_t>(members_); }
  Offer& OfferOf(int member) const {
    return offers_[static_cast<size_t>(member) * 2 + (completed_ & 1)];
  }

  const int me_;
  const int members_;
  std::atomic<uint64_t>* arrivals_;
  std::atomic<uint64_t>* finishes_;
  Elsewhere* elsewheres_;
  Offer* offers_;
  uint64_t completed_ = 0;  // complete ones
  uint64_t to_finish_ = 0;  // of these, such that this member has finished
};

}  // namespace hvdlite::comm::shm
