// HostSegment: the memory that all ranks of one host share, and what lies at its start.
//
// There is one anonymous file (memfd) per host and incarnation. It has no name anywhere, so nothing
// is left behind however the processes die, and it does not count against the size of /dev/shm. It
// begins with a header and one RankLine per local rank. Each process set appends a region of its
// own behind them (see Map).
//
// Thread-safety: everything in the mapping is atomic; Map is for one thread at a time. Lifetime:
// regions stay mapped until the segment object is destroyed. Failure: kIo with a sentence about
// what the machine lacks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace hvdlite::transport::shm {

constexpr size_t kCacheLine = 64;
// Two lines: the adjacent-line prefetcher of x86 pulls lines in pairs.
constexpr size_t kPrivateLines = 128;

// What every rank of the host may know about one of them. The rank itself writes it unless noted
// otherwise.
struct alignas(kPrivateLines) RankLine {
  std::atomic<uint32_t> sleepers{0};  // threads of the owner that sleep (or are about to) on `bell`
  std::atomic<uint32_t> bell{0};      // futex word; incremented by each ring
  std::atomic<uint32_t> uses_eventfd{0};  // the owner sleeps in poll(2): ring through its eventfd
  std::atomic<uint32_t> left{0};          // the owner has left in good order
  std::atomic<int32_t> processor{-1};     // where the owner was when it last waited
  std::atomic<uint64_t> heartbeat{0};  // changes at least four times a second while the owner lives
};

struct alignas(kPrivateLines) SegmentHeader {
  static constexpr uint64_t kMagic = 0x3165746c64766868;  // "hhvdlte1"
  static constexpr size_t kAbortTextBytes = 1024;

  std::atomic<uint64_t> magic{0};
  uint32_t local_size = 0;

  // The first failure on this host: 0 none, 1 being written, 2 readable. Set once per incarnation.
  alignas(kPrivateLines) std::atomic<uint32_t> abort_state{0};
  uint8_t abort_code = 0;
  uint8_t abort_cause = 0;
  uint32_t abort_rank_count = 0;
  int32_t abort_ranks[Status::kMostRanks] = {};
  char abort_text[kAbortTextBytes] = {};
};

class HostSegment {
 public:
  // Creates the file and maps its start. Called by the first rank of the host.
  static Status Create(int local_size, std::unique_ptr<HostSegment>* segment);
  // Maps a segment that another rank created. Takes ownership of `fd`.
  static Status Attach(int fd, int local_size, std::unique_ptr<HostSegment>* segment);
  ~HostSegment();
  HostSegment(const HostSegment&) = delete;
  HostSegment& operator=(const HostSegment&) = delete;

  int fd() const { return fd_; }
  int local_size() const { return local_size_; }
  SegmentHeader& header() { return *header_; }
  RankLine& line(int local_rank) { return lines_[local_rank]; }

  // Where the first region may start.
  size_t regions_begin() const { return start_bytes_; }
  // Maps [offset, offset + bytes) and reserves its memory, so that a full machine is an error here
  // and never a SIGBUS later. New memory is zero. All ranks that name the same range share it.
  Status Map(size_t offset, size_t bytes, void** address);
  // Unmaps a region. `last`: no rank uses it any more, so its memory goes back to the system.
  void Unmap(void* address, bool last);

  // Records the host's first failure; later ones are ignored. Rings no bell.
  void SetAbort(const Status& status);
  bool aborted() const { return header_->abort_state.load(std::memory_order_acquire) == 2; }
  // Only when aborted().
  Status abort_status() const;

 private:
  struct Region {
    void* address;
    size_t offset;
    size_t bytes;
  };
  HostSegment(int fd, int local_size) : fd_(fd), local_size_(local_size) {}
  Status MapStart(bool create);

  const int fd_;
  const int local_size_;
  size_t start_bytes_ = 0;
  SegmentHeader* header_ = nullptr;
  RankLine* lines_ = nullptr;
  std::vector<Region> regions_;
};

}  // namespace hvdlite::transport::shm
