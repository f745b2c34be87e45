// Striped: a Transport over several connections to one peer, each through another network
// interface.
//
//   bytes   |  block 0  |  block 1  |  block 2  |  block 3 ...
//   lane 0   [0 ........][2 ........]                 a block is u32 sequence (from 0, +1 per block
//   lane 1   [1 ........][3 ...                       and direction), u32 length, and its bytes
//
// The sender gives each block to the lane that will deliver it first (lanes.h). The receiver reads
// the heads of all lanes and takes the blocks in the order of their numbers. What comes too early
// stays in the kernel, so no byte is copied and no memory grows.
//
// Thread-safety, blocking: as for any Transport. Borrows the lanes. Failure: that of a lane, which
// names the lane's two ends. If the peer closes its lanes in good order, what it sent before on
// any of them is received first.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "transport/lanes.h"
#include "transport/traffic.h"
#include "transport/transport.h"

namespace hvdlite::transport {

class Striped final : public Transport {
 public:
  static constexpr size_t kMostInBlock = 128 << 10;
  static constexpr size_t kHeadBytes = 8;

  // `lanes`: at least two, in the same order at both ends. `traffic`: one for each lane, borrowed.
  Striped(std::vector<Transport*> lanes, std::vector<Traffic*> traffic);

  Status TrySend(const void* data, size_t bytes, size_t* moved) override;
  Status TryReceive(void* data, size_t bytes, size_t* moved) override;
  void WakeAt(size_t bytes) override;
  bool holds_bytes() const override;
  void AddPollFds(short events, std::vector<pollfd>* fds) const override;
  std::string Name() const override { return lanes_[0]->Name(); }
  int peer() const override { return lanes_[0]->peer(); }
  // See AddPollFds. The lanes are watched one by one.
  int fd() const override { return -1; }

 private:
  static constexpr size_t kNone = SIZE_MAX;
  struct Head {
    std::array<char, kHeadBytes> bytes{};
    size_t come = 0;
    uint32_t sequence() const;
    uint32_t length() const;
  };

  // Every kLook at most: it costs a system call for each lane.
  static constexpr Nanos kLook = 100 * kMicrosecond;
  void Look(Nanos now);
  void BeginBlock(size_t bytes);
  // Sets in_lane_ if the head of the next block has arrived.
  Status FindNextBlock();
  Status ReadHead(size_t lane);
  // Whether bytes that arrive on this lane can be taken now.
  bool IsDue(size_t lane) const;

  const std::vector<Transport*> lanes_;
  const std::vector<Traffic*> traffic_;

  std::vector<Lane> speeds_;
  Nanos looked_ = 0;
  size_t out_lane_ = 0;
  std::array<char, kHeadBytes> out_head_{};
  size_t out_head_sent_ = kHeadBytes;
  size_t out_left_ = 0;  // of the block
  uint32_t out_sequence_ = 0;

  std::vector<Head> heads_;    // of each lane's next block, as far as it has arrived
  std::vector<Status> ended_;  // of lanes that the peer has closed in good order
  size_t in_lane_ = kNone;     // that of the block under way
  size_t in_left_ = 0;
  uint32_t in_sequence_ = 0;
};

}  // namespace hvdlite::transport
