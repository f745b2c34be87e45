#include "pool/pool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/leak.h"
#include "pool/memory.h"

namespace hvdlite::pool {
namespace {

// Of addresses; memory is used as gradients ask for it.
constexpr size_t kSegmentBytes = size_t{64} << 30;

// With strict accounting the kernel may refuse a private copy when it is needed most.
bool OvercommitIsStrict() {
  const Fd file(open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC));
  char mode = '0';
  return file.valid() && read(file.get(), &mode, 1) == 1 && mode == '2';
}

bool IsPowerOfTwo(size_t number) {
  return number != 0 && (number & (number - 1)) == 0;
}

thread_local bool takes_all = false;

}  // namespace

void Pool::TakeAll(bool on) {
  takes_all = on;
}

Pool& Pool::Process() {
  static Pool* const pool = new Pool(kSegmentBytes);
  return *pool;
}

Status Pool::Reserve() {
  if (length_.load(std::memory_order_relaxed) != 0) return Status::Ok();
  if (OvercommitIsStrict())
    return Status::Unsupported(
        "this system commits no more memory than it has "
        "(vm.overcommit_memory=2)");
  const size_t length = kPlaces * segment_bytes_;
  const char* const start = ReserveAddresses(length);
  if (start == nullptr)
    return Status::Unsupported("the limit of address space is too low (ulimit -v)");
  start_.store(reinterpret_cast<uintptr_t>(start), std::memory_order_relaxed);
  length_.store(length, std::memory_order_release);
  return Status::Ok();
}

size_t Pool::FreePlace() {
  size_t found = kPlaces;
  for (size_t place = 0; place < kPlaces; ++place) {
    Segment* const there = places_[place].load(std::memory_order_relaxed);
    // A thread may still be leaving Give() of a segment that was here, so its object stays.
    if (there != nullptr && there->Release()) {
      LeakOnPurpose(there);
      places_[place].store(nullptr, std::memory_order_release);
    }
    if (places_[place].load(std::memory_order_relaxed) == nullptr) found = std::min(found, place);
  }
  return found;
}

Status Pool::Open(size_t limit, Segment** segment) {
  MutexLock lock(mutex_);
  opened_ = OpenLocked(limit, segment);
  return opened_;
}

Status Pool::opened() {
  if (disowned()) return Status::NotInitialized("this is a forked child");
  MutexLock lock(mutex_);
  return opened_;
}

Status Pool::OpenLocked(size_t limit, Segment** segment) {
  Segment* const in_use = current();
  if (in_use != nullptr && !in_use->retired()) {
    in_use->Limit(limit);
    *segment = in_use;
    return Status::Ok();
  }
  HVDLITE_RETURN_IF_ERROR(Reserve());
  const size_t place = FreePlace();
  if (place == kPlaces)
    return Status::Unsupported("the program holds gradients of " + std::to_string(kPlaces) +
                               " failed jobs");
  std::unique_ptr<Segment> made;
  const uintptr_t at = start_.load(std::memory_order_relaxed) + place * segment_bytes_;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address in the reserved range
  void* const address = reinterpret_cast<void*>(at);
  HVDLITE_RETURN_IF_ERROR(Segment::Create(address, segment_bytes_, &made));
  made->Limit(limit);
  for (const auto& [bytes, gradients] : expected_) made->Expect(bytes, gradients);
  *segment = made.release();
  places_[place].store(*segment, std::memory_order_release);
  current_.store(*segment, std::memory_order_release);
  return Status::Ok();
}

void Pool::Expect(size_t bytes, int64_t gradients) {
  if (disowned()) return;  // a thread of the parent may have held the lock
  MutexLock lock(mutex_);
  expected_[bytes] += gradients;
  if (Segment* const in_use = current()) in_use->Expect(bytes, gradients);
}

void Pool::Gate(int (*inside)(), int outside) {
  outside_.store(outside, std::memory_order_relaxed);
  inside_.store(inside, std::memory_order_release);
}

void* Pool::Take(size_t bytes, size_t alignment) {
  if (bytes < kSmallestBlock || !armed_.load(std::memory_order_acquire)) return nullptr;
  if (!IsPowerOfTwo(alignment) || alignment % sizeof(void*) != 0 || alignment > PageBytes())
    return nullptr;
  if (takes_all) return Allocate(bytes);
  Segment* const segment = current();
  if (segment == nullptr || !segment->Serves(bytes)) return nullptr;
  int pass = AllocationHistory::kNoPass;
  return IsInside(&pass) ? segment->Take(bytes, pass) : nullptr;
}

void* Pool::Allocate(size_t bytes) {
  Segment* const segment = disowned() ? nullptr : current();
  return segment == nullptr ? nullptr : segment->Allocate(bytes);
}

bool Pool::IsInside(int* pass) const {
  int (*const inside)() = inside_.load(std::memory_order_acquire);
  if (inside == nullptr) return true;
  const int now = inside();
  if (now == outside_.load(std::memory_order_relaxed)) return false;
  *pass = now;
  return true;
}

Segment* Pool::At(const void* memory) const {
  const size_t at = reinterpret_cast<uintptr_t>(memory) - start_.load(std::memory_order_relaxed);
  return places_[at / segment_bytes_].load(std::memory_order_acquire);
}

void Pool::Give(void* block) {
  if (disowned()) return;
  Segment* const segment = At(block);
  int pass = AllocationHistory::kNoPass;
  IsInside(&pass);
  if ((segment != nullptr && segment->Give(block, pass)) || reported_.exchange(true)) return;
  constexpr std::string_view kSentence =
      "hvdlite: a gradient was freed that is not allocated, or was freed twice; the call is "
      "ignored. HVDLITE_GRADIENT_POOL=0 leaves gradients to the C library.\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kSentence.data(), kSentence.size());
}

size_t Pool::SizeOf(const void* block) const {
  const Segment* const segment = At(block);
  return segment == nullptr ? 0 : segment->SizeOf(block);
}

int64_t Pool::OffsetOf(const void* memory) const {
  const Segment* const segment = current();
  if (segment == nullptr || segment->retired() || !segment->Contains(memory)) return -1;
  return static_cast<const char*>(memory) - segment->base();
}

Stats Pool::stats() const {
  const Segment* const segment = current();
  return segment == nullptr ? Stats() : segment->stats();
}

void Pool::Disown() {
  disowned_.store(true, std::memory_order_relaxed);
  Arm(false);
}

}  // namespace hvdlite::pool
