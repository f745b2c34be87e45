#include "comm/shm/fast_exchange.h"

namespace hvdlite::comm::shm {

using transport::shm::kPrivateLines;

size_t FastExchange::Footprint(int members) {
  return 2 * kPrivateLines + static_cast<size_t>(members) * (sizeof(Elsewhere) + 2 * sizeof(Offer));
}

// Zero bytes are valid. Constructing them could erase what a faster member has already written.
FastExchange::FastExchange(void* memory, int me, int members)
    : me_(me),
      members_(members),
      arrivals_(static_cast<std::atomic<uint64_t>*>(memory)),
      finishes_(
          reinterpret_cast<std::atomic<uint64_t>*>(static_cast<char*>(memory) + kPrivateLines)),
      elsewheres_(reinterpret_cast<Elsewhere*>(static_cast<char*>(memory) + 2 * kPrivateLines)),
      offers_(reinterpret_cast<Offer*>(elsewheres_ + members)) {}

bool FastExchange::Withdraw() {
  uint64_t seen = arrivals_->load(std::memory_order_acquire);
  while (seen < Wanted()) {
    if (arrivals_->compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel,
                                         std::memory_order_acquire))
      return true;
  }
  return false;
}

bool FastExchange::Agrees() const {
  for (int member = 0; member < members_; ++member) {
    if (!(OfferOf(member).topic == OfferOf(me_).topic)) return false;
  }
  return true;
}

bool FastExchange::SomeElsewhere() const {
  for (int member = 0; member < members_; ++member) {
    if (member != me_ && elsewheres_[member].yes.load(std::memory_order_acquire)) return true;
  }
  return false;
}

}  // namespace hvdlite::comm::shm
