// The part of Segment for tensors that the program allocates: of any size, and as long as it likes.
#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "pool/memory.h"
#include "pool/segment.h"

namespace hvdlite::pool {

Segment::Class* Segment::FindOrAddOfTensors(size_t bytes) {
  const size_t step = std::bit_floor(bytes) / kSizesPerDoubling;
  const size_t rounded = RoundUp(bytes, std::max(step, PageBytes()));
  MutexLock lock(classes_mutex_);
  Class*& its = of_tensors_[rounded];
  if (its == nullptr) {
    its = Add(rounded);
    if (its != nullptr) its->of_tensors = true;
  }
  return its;
}

void* Segment::Allocate(size_t bytes) {
  if (bytes < kSmallestBlock || bytes > bytes_) return nullptr;
  Class* const its = FindOrAddOfTensors(bytes);
  if (its == nullptr) return nullptr;
  uint32_t page = 0;
  bool has_addresses = false;
  {
    MutexLock lock(its->mutex);
    if (retired()) return nullptr;
    if (!its->free.empty()) {
      page = its->free.back();
      its->free.pop_back();
      budget_.Reuse(its->bytes);
      its->asked[page] = bytes;
      return HandOut(its, page, AllocationHistory::kNoPass);
    }
    has_addresses = !its->empty.empty();
    if (has_addresses) {
      page = its->empty.back();
      its->empty.pop_back();
    }
    making_.fetch_add(1);
  }
  // Without the lock: new memory takes a microsecond a page.
  const bool made = MakeTensor(*its, has_addresses, &page);
  making_.fetch_sub(1);
  MutexLock lock(its->mutex);
  if (made && !retired()) {
    its->asked[page] = bytes;
    return HandOut(its, page, AllocationHistory::kNoPass);
  }
  if (has_addresses) its->empty.push_back(page);
  return nullptr;
}

bool Segment::MakeTensor(const Class& its, bool has_addresses, uint32_t* page) {
  if (!budget_.ClaimForTensor(its.bytes)) return false;
  size_t at = size_t{*page} * PageBytes();
  if ((has_addresses || FindAddresses(its.bytes, &at)) && Furnish(at, its.bytes)) {
    *page = static_cast<uint32_t>(at / PageBytes());
    return true;
  }
  budget_.Return(its.bytes);
  return false;
}

void Segment::KeepOrEmpty(Class* its, uint32_t page) {
  its->asked.erase(page);
  if (!retired() && budget_.Keep(its->bytes)) {
    its->free.push_back(page);
    return;
  }
  budget_.Return(its->bytes);
  its->empty.push_back(page);
  const size_t offset = size_t{page} * PageBytes();
  madvise(base_ + offset, its->bytes, MADV_DONTNEED);  // private memory
  // The file of a retired segment stays as it is.
  if (retired()) return;
  if ((owner_[page].load(kRelaxed) & kPrivate) != 0) Return(*its, page, false);
  fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(its->bytes));
}

}  // namespace hvdlite::pool
