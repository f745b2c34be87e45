// What the pool asks of the kernel, in its words.
#pragma once

#include <sys/mman.h>
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
