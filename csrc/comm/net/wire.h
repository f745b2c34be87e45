// Wire: the links of one communicator, the events that the current work waits for on each, and the
// scratch memory.
//
// It moves stretches of a Flat over a link. Small tensors are gathered into (and scattered from) a
// staging piece, so that a hundred biases cost one system call. Large ones go straight from and to
// their own memory. Bytes that did not fit are gathered again, so all links share one piece for
// sending. For receiving each link has its own piece, because an incomplete frame stays there.
// Thread-safety: one thread at a time. Failure: the transport's status, which names the peer.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "comm/flat.h"
#include "comm/net/pace.h"
#include "transport/transport.h"

namespace hvdlite::comm::net {

class Wire {
 public:
  // `piece_bytes` bounds what one call moves: 64-256 KiB stay in the L2 cache between the socket
  // and the sum.
  Wire(int me, int size, std::vector<transport::Transport*> links, size_t piece_bytes,
       size_t scratch_bytes);

  int me() const { return me_; }
  int size() const { return size_; }
  size_t piece_bytes() const { return piece_bytes_; }
  size_t scratch_bytes() const { return scratch_bytes_; }

  void BeginWork() { pace_.Restart(); }
  // A turn is one Work::Advance(). BeginTurn forgets the waits of the last turn and counts anew.
  void BeginTurn();
  // The work done in this turn, in bytes moved or touched. More than 0 means progress; more than a
  // piece means enough.
  size_t spent() const { return spent_; }
  bool enough() const { return spent_ >= piece_bytes_; }
  void Spend(size_t bytes) { spent_ += bytes; }

  // Moves what fits of flat[cursor->at, min(cursor->end, limit)), at most a piece, and advances the
  // cursor.
  Status Send(int to, const Flat& flat, Cursor* cursor, size_t limit = SIZE_MAX);
  Status Receive(int from, const Flat& flat, Cursor* cursor, size_t limit = SIZE_MAX);
  // Receives into plain memory: *moved bytes, at most a piece.
  Status ReceiveInto(int from, void* data, size_t bytes, size_t* moved);

  // Returns at least `bytes` of memory for the current work alone, aligned to 64 bytes. It grows
  // when needed and is kept. The pointer stays valid until the next call with a larger size.
  char* Scratch(size_t bytes);

  void AddPollFds(std::vector<pollfd>* fds) const;
  // See comm::Communicator.
  bool slow() const;

 private:
  struct Free {
    void operator()(char* memory) const;
  };
  using Memory = std::unique_ptr<char, Free>;
  static Memory Allocate(size_t bytes);
  Status SendBytes(int to, const void* data, size_t bytes, size_t* moved);
  void WaitFor(int member, short events);

  const int me_;
  const int size_;
  const std::vector<transport::Transport*> links_;
  const size_t piece_bytes_;
  const size_t scratch_bytes_;
  std::vector<short> waits_;    // poll(2) events per member, of the last turn
  std::vector<size_t> wanted_;  // bytes to receive per member that POLLIN in waits_ is about
  std::vector<int> waiting_;    // the members whose entry in waits_ is not 0
  size_t spent_ = 0;
  Pace pace_;                     // of all links together: one thread serves them
  Memory staging_;                // for sending
  std::vector<Memory> arriving_;  // for receiving, by member
  Memory scratch_;
  size_t scratch_size_ = 0;
};

}  // namespace hvdlite::comm::net
