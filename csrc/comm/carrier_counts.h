// CarrierCounts: counts the batches that each carrier has carried since init(), by operation; for
// hvd.metrics().
//
// A carrier that uses others (hierarchical, stage, mpi pipes) counts, and so do those others.
// Thread-safety: any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/ops.h"

namespace hvdlite::comm {

enum class Carrier : uint8_t {
  kSelf,
  kShmExchange,
  kShmShares,
  kShmStream,
  kShmAdasum,
  kShmInPlace,
  kShmFastPath,
  kNetOneShot,  // from here on in the order of Algorithm
  kNetDirect,
  kNetGather,
  kNetRing,
  kNetPairwise,
  kNetTree,
  kNetChain,
  kNetDissemination,
  kNetAdasum,
  kNetMeeting,
  kHierarchical,
  kMpiOneShot,
  kMpiDirect,
  kMpiPairwise,
  kMpiGather,
  kMpiLibrary,
  kMpiPipes,
  kStage,
  kNccl,
  kEncodedOwners,
  kEncodedGather,
  kEncodedOnGpu,
  kSparse,
};
constexpr int kCarrierCount = 30;

constexpr std::string_view Name(Carrier carrier) {
  constexpr std::string_view names[kCarrierCount] = {
      "self",         "shm exchange",   "shm shares",     "shm stream",     "shm adasum",
      "shm in place", "shm fast path",  "net one-shot",   "net direct",     "net gather",
      "net ring",     "net pairwise",   "net tree",       "net chain",      "net dissemination",
      "net adasum",   "net meeting",    "hierarchical",   "mpi one-shot",   "mpi direct",
      "mpi pairwise", "mpi gather",     "mpi library",    "mpi pipes",      "stage",
      "nccl",         "encoded owners", "encoded gather", "encoded on GPU", "sparse"};
  return names[static_cast<int>(carrier)];
}

class CarrierCounts {
 public:
  void Count(Carrier carrier, OpKind kind) {
    Of(carrier, kind).fetch_add(1, std::memory_order_relaxed);
  }
  uint64_t By(Carrier carrier, OpKind kind) const {
    return counts_[static_cast<size_t>(carrier)][static_cast<size_t>(kind)].load(
        std::memory_order_relaxed);
  }

  // What this rank has sent encoded, and as how many bytes of float32 it would have gone.
  void CountEncoded(uint64_t before, uint64_t after) {
    before_encoding_.fetch_add(before, std::memory_order_relaxed);
    after_encoding_.fetch_add(after, std::memory_order_relaxed);
  }
  uint64_t before_encoding() const { return before_encoding_.load(std::memory_order_relaxed); }
  uint64_t after_encoding() const { return after_encoding_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t>& Of(Carrier carrier, OpKind kind) {
    return counts_[static_cast<size_t>(carrier)][static_cast<size_t>(kind)];
  }
  std::array<std::array<std::atomic<uint64_t>, kOpKindCount>, kCarrierCount> counts_{};
  std::atomic<uint64_t> before_encoding_{0}, after_encoding_{0};
};

}  // namespace hvdlite::comm
