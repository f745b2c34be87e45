// What the pool asks of the kernel, in its words.
#pragma once

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

// Newer than the C libraries that hvdlite is built with.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

namespace hvdlite::pool {

inline size_t PageBytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// What the kernel can map by one entry on most machines. Elsewhere it is only an alignment.
constexpr size_t kHugePage = 2 << 20;

inline size_t RoundUp(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

inline size_t RoundToPages(size_t bytes) {
  return RoundUp(bytes, PageBytes());
}

// Shared memory that a fork does not inherit, and that no core dump holds: it is large and sparse.
inline bool KeepFromChildren(void* memory, size_t bytes) {
  madvise(memory, bytes, MADV_DONTDUMP);
  return madvise(memory, bytes, MADV_DONTFORK) == 0;
}

// Puts a part of the file where it has been mapped before. `how`: MAP_SHARED or MAP_PRIVATE. Other
// threads may use the memory meanwhile, which ThreadSanitizer would take for a race with mmap().
inline bool MapFile(char* memory, size_t bytes, int fd, size_t offset, int how) {
  return syscall(SYS_mmap, memory, bytes, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_NORESERVE | how,
                 fd, offset) == reinterpret_cast<long>(memory);
}

// Gives each page memory of its own, as a write to it would, and changes no byte: other threads
// may write meanwhile.
inline void Populate(char* memory, size_t bytes) {
  int rc;
  do {
    rc = madvise(memory, bytes, MADV_POPULATE_WRITE);
  } while (rc != 0 && (errno == EINTR || errno == EAGAIN));
  if (rc == 0) return;
  // Linux before 5.14.
  for (size_t at = 0; at < bytes; at += PageBytes())
    __atomic_fetch_or(memory + at, char{0}, __ATOMIC_RELAXED);
}

// Puts populated memory on huge pages, for all processes that map it, and changes no byte. Linux
// before 6.1, or without free huge pages, leaves it as it is.
inline void MakeHuge(char* memory, size_t bytes) {
  madvise(memory, bytes / kHugePage * kHugePage, MADV_COLLAPSE);
}

// Unused addresses of whole pages that begin on a huge page, with no memory; null: there are too
// few.
inline char* ReserveAddresses(size_t bytes) {
  bytes = RoundToPages(bytes);  // munmap() refuses the rest of a page
  const size_t whole = bytes + kHugePage;
  void* const found =
      mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) return nullptr;
  char* const first = static_cast<char*>(found);
  const auto at = reinterpret_cast<uintptr_t>(first);
  const size_t before = RoundUp(at, kHugePage) - at;
  if (before != 0) munmap(first, before);
  munmap(first + before + bytes, kHugePage - before);
  return first + before;
}

}  // namespace hvdlite::pool
