#include "comm/shm/region.h"

#include <algorithm>

namespace hvdlite::comm::shm {

using transport::shm::Pipe;

size_t Region::Footprint(int members, size_t chunk_bytes) {
  const size_t n = static_cast<size_t>(members);
  const size_t bytes =
      n * (3 * sizeof(FlagLine) + kSlots * chunk_bytes + Pipe::Footprint(kPipeBytes)) +
      FastExchange::Footprint(members);
  return (bytes + 4095) / 4096 * 4096;
}

Region::Region(void* memory, int me, std::vector<int> local_ranks, size_t chunk_bytes,
               transport::shm::Doorbells* bells)
    : me_(me),
      local_ranks_(std::move(local_ranks)),
      slot_bytes_(chunk_bytes),
      chunk_bytes_(chunk_bytes),
      bells_(bells),
      seen_(local_ranks_.size() * 3, 0) {
  const size_t n = local_ranks_.size();
  char* at = static_cast<char*>(memory);
  // Zero bytes are a valid FlagLine. Constructing one could erase what a faster member has already
  // posted.
  flags_ = reinterpret_cast<FlagLine*>(at);
  at += n * 3 * sizeof(FlagLine);
  pipes_ = at;
  at += n * Pipe::Footprint(kPipeBytes);
  fast_exchange_ = at;
  at += FastExchange::Footprint(members());
  slots_ = at;
}

// Slots are cut into shares of whole cache lines, so a chunk needs at least one per member.
void Region::CutInto(size_t chunk_bytes) {
  constexpr size_t kShare = 64;
  const size_t least = local_ranks_.size() * kShare;
  chunk_bytes_ = std::min(std::max(chunk_bytes / kShare * kShare, least), slot_bytes_);
}

void Region::Post(Flag flag, uint64_t count) {
  Line(flag, me_).store(count, std::memory_order_seq_cst);
  for (int member = 0; member < members(); ++member) {
    if (member != me_) bells_->Ring(local_ranks_[member]);
  }
}

bool Region::Reached(Flag flag, int member, uint64_t count) const {
  uint64_t& seen = seen_[static_cast<size_t>(member) * 3 + static_cast<size_t>(flag)];
  if (seen < count) seen = Line(flag, member).load(std::memory_order_seq_cst);
  return seen >= count;
}

bool Region::AllReached(Flag flag, uint64_t count) const {
  for (int member = 0; member < members(); ++member) {
    if (member != me_ && !Reached(flag, member, count)) return false;
  }
  return true;
}

bool Region::Leave() {
  constexpr uint64_t kGone = UINT64_MAX;
  Line(Flag::kOut, me_).store(kGone, std::memory_order_seq_cst);
  return AllReached(Flag::kOut, kGone);
}

}  // namespace hvdlite::comm::shm
