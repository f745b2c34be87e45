// Peers: the segments of the ranks of this host, as this rank sees them.
//
// What comes from another rank is not trusted: a file must be sealed against shrinking, and every
// offset is checked. Thread-safety: after the ranks are in, everything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "pool/segment.h"

namespace hvdlite::pool {

class Peers {
 public:
  // This rank is `me` of `ranks`. `own` may be null.
  Peers(int ranks, int me, Segment* own);
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  // The rank's segment; the descriptor stays the caller's.
  Status Map(int rank, int fd);
  // For ranks that are threads of one process.
  void Add(int rank, const Segment& segment);
  // Without this rank's own blocks: it takes part, and its gradients go the other way.
  void GiveUp() { own_ = nullptr; }

  Segment* own() const { return own_; }
  // Where this rank's memory lies in its segment; -1: not there. See Segment::Lend.
  int64_t Lend(void* memory, size_t bytes) const;
  // Null: not all of it lies in the rank's segment.
  char* At(int rank, int64_t offset, size_t bytes) const;

 private:
  struct Mapping {
    char* base = nullptr;
    size_t bytes = 0;
    bool mapped_here = false;
  };

  Segment* own_;
  std::vector<Mapping> mappings_;  // by rank
};

}  // namespace hvdlite::pool
