// Channel: an MPI communicator of our own among some ranks of the job, and one rank's messages
// through it.
//
// What is under way is a Slot: requests, and memory for what does not lie in one piece. A Slot
// posts and then only asks; nothing here waits but Open().
//
// Thread-safety: one thread at a time (the holder of the engine's turn). Lifetime: slots end before
// it. Failure: MPI's, with MPI's words. A channel on which something was given up half-way is
// broken: neither its MPI communicator nor its memory is given back, because MPI may still write
// into it.
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
  // Blocks until all of `ranks` (of the communicator `base`, in their order) have come. `tag`:
  // equal on all of them, and of no other channel that is being opened.
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
  // Gives up what is under way, if anything is, and breaks the channel.
  ~Slot();
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  // Before a step: forgets the one before, keeps its memory.
  void Reset();
  // Memory until the next Reset.
  char* Memory(size_t bytes);

  // A stretch of a Flat to or from a member, in one message of at most 2 GiB. Nothing is sent where
  // it is empty; both sides know.
  Status Send(const Flat& flat, Cursor stretch, int to, int tag);
  Status Receive(const Flat& flat, Cursor stretch, int from, int tag);
  Status SendFrom(const void* memory, size_t bytes, int to, int tag);
  Status ReceiveInto(void* memory, size_t bytes, int from, int tag);
  // Where MPI itself does the collective: the requests are this step's, too.
  Handle* AddRequest();
  // The stretch in one piece: as it lies, or copied together.
  char* Gather(const Flat& flat, Cursor stretch);
  // Memory for the stretch in one piece, which lands in the Flat once the step is done.
  char* Await(const Flat& flat, Cursor stretch);

  // *done: all requests are. Never waits.
  Status Test(bool* done);
  // After that: what came in one piece goes where it belongs.
  void Scatter();
  // Whether Test() has got any further since the last call of this.
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
  // of stable address; the first `count_` are in use
  std::vector<std::unique_ptr<Request>> requests_;
  size_t count_ = 0;
  size_t done_ = 0;  // of them, the first so many
  size_t seen_ = 0;
  std::vector<Landing> landings_;
  std::vector<Block> blocks_;
  size_t block_ = 0;  // the one that Memory() takes from
  size_t taken_ = 0;  // of it
};

// The one stretch of memory behind a stretch of a Flat, or null if it is in several.
char* Unbroken(const Flat& flat, Cursor stretch);

}  // namespace hvdlite::comm::mpi
