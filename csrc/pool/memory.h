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

// Puts a part of the file where it has been mapped before. `how`: MAP_SHARED or MAP_PRIVATE. Other
// threads may use the memory meanwhile, which ThreadSanitizer would take for a race with mmap().
inline bool MapFile(char* memory, size_t bytes, int fd, size_t offset, int how) {
  return syscall(SYS_mmap, memory, bytes, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_NORESERVE | how,
                 fd, offset) == reinterpret_cast<long>(memory);
}

inline bool WriteAll(int fd, const char* memory, size_t bytes, size_t offset) {
  while (bytes > 0) {
    const ssize_t written = pwrite(fd, memory, bytes, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    memory += written;
    offset += static_cast<size_t>(written);
    bytes -= static_cast<size_t>(written);
  }
  return true;
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
