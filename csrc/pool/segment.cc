#include "pool/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "pool/memory.h"

namespace hvdlite::pool {
namespace {

// 2 to the power of 11 is kTableSize.
size_t Hash(size_t bytes) {
  return bytes * 0x9E3779B97F4A7C15ull >> 53;
}

Status Refused(const char* what, int error) {
  return Status::Unsupported(std::string(what) + ": " + strerror(error));
}

}  // namespace

Status Segment::Create(void* address, size_t bytes, std::unique_ptr<Segment>* segment) {
  // Beyond this limit ftruncate kills the process by a signal.
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes)
    return Status::Unsupported("the limit of a file's size is too low (ulimit -f)");
  Fd fd(memfd_create("hvdlite-gradients", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return Refused("memfd_create", errno);
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return Refused("ftruncate", errno);
  // So that no rank can make another one's access fail.
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    return Refused("F_ADD_SEALS", errno);
  const size_t owner_bytes = bytes / PageBytes() * sizeof(uint16_t);
  void* const owner = mmap(nullptr, owner_bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (owner == MAP_FAILED) return Refused("mmap", errno);
  const int where = address == nullptr ? 0 : MAP_FIXED;
  void* const base =
      mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | where, fd.get(), 0);
  if (base == MAP_FAILED || !KeepFromChildren(base, bytes)) {
    const int error = errno;
    if (base != MAP_FAILED) munmap(base, bytes);
    munmap(owner, owner_bytes);
    return Refused("mmap of shared memory", error);
  }
  segment->reset(new Segment(fd.Release(), static_cast<char*>(base), bytes));
  (*segment)->owner_ = static_cast<std::atomic<uint16_t>*>(owner);
  return Status::Ok();
}

Segment::~Segment() {
  munmap(base_, bytes_);
  munmap(owner_, bytes_ / PageBytes() * sizeof(uint16_t));
}

Segment::Class* Segment::Find(size_t bytes) const {
  if (bytes < kSmallestBlock) return nullptr;
  for (size_t at = Hash(bytes);; at = (at + 1) % kTableSize) {
    Class* const here = table_[at].load(std::memory_order_acquire);
    if (here == nullptr || here->bytes == bytes) return here;
  }
}

Segment::Class* Segment::FindOrAdd(size_t bytes) {
  if (Class* const known = Find(bytes)) return known;
  Class* const made = Add(bytes);
  if (made == nullptr) return nullptr;
  size_t at = Hash(bytes);
  while (table_[at].load(kRelaxed) != nullptr) at = (at + 1) % kTableSize;
  table_[at].store(made, std::memory_order_release);
  return made;
}

Segment::Class* Segment::Add(size_t bytes) {
  if (class_count_ == kMostClasses) return nullptr;
  const size_t number = ++class_count_;
  classes_[number] = std::make_unique<Class>();
  Class* const made = classes_[number].get();
  made->bytes = bytes;
  made->number = static_cast<uint16_t>(number);
  return made;
}

void Segment::Expect(size_t bytes, int64_t gradients) {
  if (bytes < kSmallestBlock || bytes > bytes_) return;
  MutexLock classes(classes_mutex_);
  Class* const its = FindOrAdd(bytes);
  if (its == nullptr) return;
  MutexLock lock(its->mutex);
  const int64_t before = its->expected;
  its->expected = std::max<int64_t>(before + gradients, 0);
  budget_.Expect((its->expected - before) * static_cast<int64_t>(RoundToPages(bytes)));
  // Give() must not allocate.
  its->free.reserve(std::max(its->made, static_cast<size_t>(its->expected * kBlocksPerGradient)));
}

bool Segment::Make(size_t bytes, uint32_t* page) {
  const size_t whole = RoundToPages(bytes);
  if (!budget_.ClaimForGradient(whole)) return false;
  size_t at = 0;
  if (!FindAddresses(whole, &at)) return false;
  // Without memory the addresses stay unused. What has been claimed bounds the loss.
  if (!Furnish(at, whole)) return false;
  *page = static_cast<uint32_t>(at / PageBytes());
  return true;
}

bool Segment::FindAddresses(size_t bytes, size_t* at) {
  size_t end = used_.load(kRelaxed);
  do {
    *at = bytes < kHugePage ? end : RoundUp(end, kHugePage);
    if (*at + bytes > bytes_) return false;
  } while (!used_.compare_exchange_weak(end, *at + bytes, kRelaxed));
  return true;
}

bool Segment::Furnish(size_t at, size_t bytes) {
  int rc;
  do {
    rc = fallocate(fd_.get(), 0, static_cast<off_t>(at), static_cast<off_t>(bytes));
  } while (rc != 0 && errno == EINTR);
  if (rc != 0) return false;
  Populate(base_ + at, bytes);
  if (bytes >= kHugePage) MakeHuge(base_ + at, bytes);
  return true;
}

void* Segment::HandOut(Class* its, uint32_t page, int pass) {
  if ((owner_[page].load(kRelaxed) & kPrivate) != 0) {
    const int error = errno;
    Return(*its, page, false);  // otherwise it is a private block
    errno = error;
  }
  owner_[page].store((owner_[page].load(kRelaxed) & kPrivate) | its->number | kLive, kRelaxed);
  its->hits.fetch_add(1, kRelaxed);
  its->history.Served(pass, page);
  live_.fetch_add(1, kRelaxed);
  return base_ + size_t{page} * PageBytes();
}

void* Segment::Take(size_t bytes, int pass) {
  Class* const its = Find(bytes);
  if (its == nullptr) return nullptr;
  bool more = false;
  {
    MutexLock lock(its->mutex);
    if (retired() || !its->history.Wants(pass)) return nullptr;
    if (!its->free.empty()) {
      const uint32_t page = its->free.back();
      its->free.pop_back();
      return HandOut(its, page, pass);
    }
    more = its->made < static_cast<size_t>(its->expected * kBlocksPerGradient);
    if (more) {
      ++its->made;
      making_.fetch_add(1);
    }
  }
  // Without the lock: new memory takes a microsecond a page.
  const int error = errno;
  uint32_t page = 0;
  const bool made = more && Make(bytes, &page);
  errno = error;
  if (more) making_.fetch_sub(1);
  MutexLock lock(its->mutex);
  if (made && !retired()) return HandOut(its, page, pass);
  if (more) --its->made;
  its->misses.fetch_add(1, kRelaxed);
  return nullptr;
}

bool Segment::Give(void* block, int pass) {
  const auto at = static_cast<size_t>(static_cast<char*>(block) - base_);
  std::atomic<uint16_t>& owner = owner_[at / PageBytes()];
  const uint16_t found = owner.load(kRelaxed);
  if (at % PageBytes() != 0 || (found & kLive) == 0) return false;
  Class* const its = ClassOf(found);
  MutexLock lock(its->mutex);
  if ((owner.fetch_and(static_cast<uint16_t>(~kLive), kRelaxed) & kLive) == 0) return false;
  const auto page = static_cast<uint32_t>(at / PageBytes());
  live_.fetch_sub(1, kRelaxed);
  if (its->of_tensors) {
    KeepOrEmpty(its, page);
    return true;
  }
  its->free.push_back(page);
  its->history.Freed(pass, page);
  return true;
}

size_t Segment::SizeOf(const void* block) const {
  const auto at = static_cast<size_t>(static_cast<const char*>(block) - base_);
  const uint16_t found = owner_[at / PageBytes()].load(kRelaxed);
  if (at % PageBytes() != 0 || (found & kLive) == 0) return 0;
  return ClassOf(found)->bytes;
}

Stats Segment::stats() const {
  Stats all;
  for (const auto& each : table_) {
    const Class* const its = each.load(std::memory_order_acquire);
    if (its == nullptr) continue;
    all.hits += its->hits.load(kRelaxed);
    all.misses += its->misses.load(kRelaxed);
  }
  all.live = live();
  all.bytes = budget_.bytes();
  return all;
}

void Segment::MakePrivate() {
  const size_t end = used_.load(kRelaxed) / PageBytes();
  size_t first = 0;  // of blocks that lie side by side and become private together
  size_t page = 0;
  while (page < end) {
    const uint16_t found = owner_[page].load(kRelaxed);
    const size_t next = page + (found == 0 ? 1 : RoundToPages(ClassOf(found)->bytes) / PageBytes());
    if ((found & (kLive | kPrivate)) != kLive) {
      MakePrivate(first, page);
      first = next;
    }
    page = next;
  }
  MakePrivate(first, page);
}

// First the mapping, which no other thread sees half done, then the copies: what threads write
// meanwhile is not lost.
void Segment::MakePrivate(size_t first_page, size_t end_page) {
  if (first_page == end_page) return;
  const size_t offset = first_page * PageBytes();
  const size_t bytes = (end_page - first_page) * PageBytes();
  if (!MapFile(base_ + offset, bytes, fd_.get(), offset, MAP_PRIVATE)) return;
  Populate(base_ + offset, bytes);
  for (size_t page = first_page; page < end_page; ++page) {
    if (owner_[page].load(kRelaxed) != 0) owner_[page].fetch_or(kPrivate, kRelaxed);
  }
}

bool Segment::Return(const Class& its, uint32_t page, bool keep) {
  const size_t offset = size_t{page} * PageBytes();
  const size_t bytes = RoundToPages(its.bytes);
  if (keep && !WriteAll(fd_.get(), base_ + offset, bytes, offset)) return false;
  if (!MapFile(base_ + offset, bytes, fd_.get(), offset, MAP_SHARED)) return false;
  if (!KeepFromChildren(base_ + offset, bytes)) {
    MapFile(base_ + offset, bytes, fd_.get(), offset, MAP_PRIVATE);
    return false;
  }
  Populate(base_ + offset, bytes);
  owner_[page].fetch_and(static_cast<uint16_t>(~kPrivate), kRelaxed);
  return true;
}

void Segment::BeginLending() {
  MutexLock lock(lending_mutex_);
  ++lending_;
}

void Segment::EndLending() {
  MutexLock lock(lending_mutex_);
  --lending_;
  lending_ended_.NotifyAll();
}

int64_t Segment::Lend(const void* tensor, size_t bytes) {
  if (retired()) return -1;
  if (!Contains(tensor)) {
    if (Class* const missed = Find(bytes)) {
      MutexLock lock(missed->mutex);
      missed->history.Missed();
    }
    return -1;
  }
  const auto offset = static_cast<size_t>(static_cast<const char*>(tensor) - base_);
  size_t page = offset / PageBytes();
  while (page > 0 && owner_[page].load(kRelaxed) == 0) --page;
  const uint16_t found = owner_[page].load(kRelaxed);
  if ((found & kLive) == 0) return -1;
  Class* const its = ClassOf(found);
  const size_t begin = page * PageBytes();
  if (offset - begin > its->bytes || bytes > its->bytes - (offset - begin)) return -1;
  if ((found & kPrivate) != 0) {
    MutexLock lock(its->mutex);
    // Other threads may write to the rest of the block, and would lose what they write.
    if (bytes != its->AskedFor(static_cast<uint32_t>(page))) return -1;
    if (!Return(*its, static_cast<uint32_t>(page), true)) return -1;
  }
  return static_cast<int64_t>(offset);
}

void Segment::Retire() {
  if (retired_.exchange(true)) return;
  MutexLock classes(classes_mutex_);
  for (size_t number = 1; number <= class_count_; ++number) {
    // Afterwards a thread in Take() has handed out its block or finds the segment retired.
    MutexLock lock(classes_[number]->mutex);
  }
  // The file stays as it is: a rank that has this one's share already may still end its pass.
  MakePrivate();
}

void Segment::BeforeFork(Nanos longest) NO_THREAD_SAFETY_ANALYSIS {
  const Deadline deadline = Deadline::After(longest);
  lending_mutex_.Lock();
  while (lending_ > 0 && !deadline.Passed())
    lending_ended_.WaitFor(lending_mutex_, deadline.Left(kSecond));
  classes_mutex_.Lock();
  for (size_t number = 1; number <= class_count_; ++number) classes_[number]->mutex.Lock();
  if (lending_ == 0 && !retired()) MakePrivate();
}

void Segment::AfterFork() NO_THREAD_SAFETY_ANALYSIS {
  for (size_t number = class_count_; number > 0; --number) classes_[number]->mutex.Unlock();
  classes_mutex_.Unlock();
  lending_mutex_.Unlock();
}

bool Segment::Release() {
  if (!retired() || live() != 0 || making_.load() != 0) return false;
  void* const gone = mmap(base_, bytes_, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  fd_.Reset();
  return gone == base_;
}

}  // namespace hvdlite::pool
