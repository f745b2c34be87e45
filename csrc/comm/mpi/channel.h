// Channel: an MPI communicator of our own among some ranks of the job, and one rank's messages
// through it.
//
// A Slot holds the operations in progress: requests, and memory for stretches that do not lie in
// one piece. A Slot posts requests and then only tests them. Only Open() waits.
//
// Thread-safety: one thread at a time (the holder of the engine's turn). Lifetime: slots end before
// the channel. Failure: MPI's, with MPI's description. A channel on which an operation was
// abandoned is broken: neither its MPI communicator nor its memory is freed, because MPI may still
// write into that memory.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/until.h"
#include "comm/flat.h"
#include "comm/mpi/library.h"

namespace hvdlite::comm::mpi {

class Channel {
 public:
  // Blocks until all of `ranks` (of the communicator `base`, in their order) have joined. `tag` is
  // the same on all of them, and differs from that of any other channel being opened.
  static Status Open(std::shared_ptr<const Library> library, Handle base,
                     const std::vector<int>& ranks, int tag, const Until& until,
                     std::unique_ptr<Channel>* channel);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  const Library& library() const { return *library_; }
  Handle comm() const { return comm_; }
  int me() const { return me_; }
  int size() const { return size_; }
  bool broken() const { return broken_; }
  void Break() { broken_ = true; }

 private:
  Channel(std::shared_ptr<const Library> library, Handle comm)
      : library_(std::move(library)), comm_(comm) {}

  const std::shared_ptr<const Library> library_;
  Handle comm_;
  int me_ = 0;
  int size_ = 0;
  bool broken_ = false;
};

// One step of an operation: messages that are posted together and awaited together.
class Slot {
 public:
  explicit Slot(Channel* channel) : channel_(*channel) {}
  // Abandons operations in progress, if there are any, and breaks the channel.
  ~Slot();
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  // Call before a step. Forgets the step before, keeps its memory.
  void Reset();
  // Returns memory that is valid until the next Reset.
  char* Memory(size_t bytes);

  // Sends or receives a stretch of a Flat in one message of at most 2 GiB. An empty stretch is not
  // sent; both sides know.
  Status Send(const Flat& flat, Cursor stretch, int to, int tag);
  Status Receive(const Flat& flat, Cursor stretch, int from, int tag);
  Status SendFrom(const void* memory, size_t bytes, int to, int tag);
  Status ReceiveInto(void* memory, size_t bytes, int from, int tag);
  // Adds a request of this step for a collective that MPI does itself.
  Handle* AddRequest();
  // The stretch in one piece: its own memory if that is one piece, else a copy.
  char* Gather(const Flat& flat, Cursor stretch);
  // Memory in one piece for a stretch to be received. Scatter() copies it to the Flat.
  char* Await(const Flat& flat, Cursor stretch);

  // *done: all requests are complete. Never waits.
  Status Test(bool* done);
  // Call after that: copies received stretches to their places.
  void Scatter();
  // Whether Test() has advanced since the last call of this.
  bool Moved();

 private:
  struct Request {
    Handle handle = 0;
    bool receives = false;
  };
  struct Landing {
    const Flat* flat;
    Cursor stretch;
    const char* memory;
  };
  struct Block {
    std::unique_ptr<char[]> memory;
    size_t size;
  };

  Channel& channel_;
  // their addresses are stable; the first `count_` are in use
  std::vector<std::unique_ptr<Request>> requests_;
  size_t count_ = 0;
  size_t done_ = 0;  // the number of complete requests, which come first
  size_t seen_ = 0;
  std::vector<Landing> landings_;
  std::vector<Block> blocks_;
  size_t block_ = 0;  // the block that Memory() takes from
  size_t taken_ = 0;  // bytes taken from that block
};

// The one stretch of memory behind a stretch of a Flat, or null if it is in several.
char* Unbroken(const Flat& flat, Cursor stretch);

}  // namespace hvdlite::comm::mpi
