// What the pool asks of the kernel, in its words.
#pragma once

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

// Newer than the C libraries that hvdlite is built with.
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace hvdlite::pool {

inline size_t PageBytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

inline size_t RoundToPages(size_t bytes) {
  return (bytes + PageBytes() - 1) / PageBytes() * PageBytes();
}

// Shared memory that a fork does not inherit, and that no core dump holds: it is large and sparse.
inline bool KeepFromChildren(void* memory, size_t bytes) {
  madvise(memory, bytes, MADV_DONTDUMP);
  return madvise(memory, bytes, MADV_DONTFORK) == 0;
}

// As mmap(2) of a file from its start, in this process alone. Other threads may use the memory
// meanwhile, which ThreadSanitizer would take for a race with mmap().
inline bool MapPrivate(char* memory, size_t bytes, int fd, int how) {
  const long mapped = syscall(SYS_mmap, memory, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_NORESERVE | how, fd, 0);
  const bool there = mapped == reinterpret_cast<long>(memory);
  if (!there && mapped != -1) syscall(SYS_munmap, mapped, bytes);  // a kernel that ignores `how`
  return there;
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

}  // namespace hvdlite::pool
