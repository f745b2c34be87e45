// What another process sees of a segment.
#pragma once

#include <sys/mman.h>

#include <cstddef>

#include "pool/segment.h"

namespace hvdlite::pool {

class Elsewhere {
 public:
  explicit Elsewhere(const Segment& segment)
      : bytes_(segment.bytes()),
        base_(static_cast<char*>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                                      MAP_SHARED | MAP_NORESERVE, segment.fd(), 0))) {}
  ~Elsewhere() { munmap(base_, bytes_); }
  char& at(const Segment& segment, const void* block) const {
    return base_[static_cast<const char*>(block) - segment.base()];
  }

 private:
  const size_t bytes_;
  char* const base_;
};

}  // namespace hvdlite::pool
