// Communicator: performs collectives among the members of one process set.
//
// There is a folder per implementation (self, shm, net, hierarchical, mpi, nccl, gpu). All members
// start the same batches in the same order, one at a time but for Exchanges. Nothing here ever
// blocks: Start() returns a Work, and the engine calls its Advance() until it is done. So a rank
// that belongs to several process sets can never deadlock between them. Only the engine waits, and
// it notices a dead peer, a deadline or Ctrl-C. Start() ignores codecs and sparse tensors: batches
// with them go through compressed/, over any communicator. Thread-safety: one thread at a time (the
// holder of the engine's turn).
#pragma once

#include <poll.h>

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "comm/batch.h"
#include "comm/carrier_counts.h"
#include "comm/scratch.h"

namespace hvdlite::comm {

enum class Progress : uint8_t {
  kNone,    // waiting for a peer; call again later
  kSome,    // moved forward; call again at once
  kDone,    // finished, outputs are complete; inputs may be reused
  kFailed,  // see status(); outputs are undefined and the communicator is unusable
};

// One collective in progress. Borrows the batch and its tensors until kDone or kFailed.
class Work {
 public:
  virtual ~Work() = default;
  // Does a bounded amount of work (about one chunk: tens of microseconds), never waits.
  virtual Progress Advance() = 0;
  // OK unless Advance() returned kFailed.
  const Status& status() const { return status_; }
  // After kFailed: whether only the operations of this batch have failed, on all members alike, so
  // that the communicator can be used further.
  virtual bool failed_alone() const { return false; }
  // After kDone of a batch on a GPU: the event that fires when the work enqueued on its stream is
  // done. Only then are outputs complete and inputs free. Null: they are so already.
  virtual device::EventPtr finished() const { return nullptr; }

 protected:
  Progress Fail(Status status) {
    status_ = std::move(status);
    return Progress::kFailed;
  }

 private:
  Status status_;
};

// Alltoalls and allgathers of bytes, one after the other on each link.
//
// All members add the same exchanges in the same order. Several may be under way. On each link a
// member sends the bytes of the next exchange once those of the present one have left, although
// other peers may be late. So the links have work while members compute. The destructor touches no
// batch.
class Exchanges : public Work {
 public:
  // `batch` must not change before the exchange has ended. Its inputs are there.
  virtual void Add(const Batch& batch) = 0;
  // How many have ended, in the order in which they were added.
  size_t ended() const { return ended_; }
  // Moves some bytes. kDone: none is under way.
  Progress Advance() override = 0;

 protected:
  void EndOne() { ++ended_; }

 private:
  size_t ended_ = 0;
};

// What autotuning may change in a communicator between two operations. Each multiplies what the
// configuration says. All members use the same at the same operation. None changes a bit of a
// result.
struct Tunables {
  double byte_cost = 1;  // of a network, beside a message; for the choice of an algorithm
  double small = 1;      // up to which size members of a host exchange tensors whole
  double chunk = 1;      // at most 1: chunks in shared memory
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  // For logs, the timeline and `choose`: "shm", "net", ...
  virtual const char* name() const = 0;
  // The algorithm of this batch, as a sentence ("ring: 4 MiB >= 256 KiB").
  virtual std::string Explain(const Batch& batch) const = 0;
  // `batch` must outlive the returned work. Never null.
  virtual std::unique_ptr<Work> Start(const Batch& batch) = 0;
  // Starts a stream of exchanges, of which several are under way at a time. No other batch is
  // started before they have ended. Null on all members: the communicator has one batch under way
  // at a time.
  virtual std::unique_ptr<Exchanges> StartExchanges() { return nullptr; }
  // Starts an allreduce with a codec in a way of its own. `me` is this member's index among
  // `members`. Null: it has none. Callers go through compressed::StartEncoded().
  virtual std::unique_ptr<Work> StartEncoded(const Batch&, int /*me*/, int /*members*/) {
    return nullptr;
  }
  // Whether an allreduce has two levels: inside each host, and between hosts. Only the latter is
  // encoded.
  virtual bool has_levels() const { return false; }
  // Adds the descriptors to sleep on while a Work returns kNone, with the events that it waits for
  // (POLLIN and/or POLLOUT).
  virtual void AddPollFds(std::vector<pollfd>* fds) const = 0;
  // Whether the engine must poll: neither those descriptors nor the doorbell report progress.
  virtual bool must_be_asked() const { return false; }
  // Changes what autotuning may change. All members call it between the same two batches.
  virtual void Tune(const Tunables&) {}
  // Whether the works under way wait for bytes that arrive so slowly that a thread should sleep at
  // once instead of spinning.
  virtual bool slow() const { return false; }
  // Counts batches in `carrier_counts` from now on. Borrowed.
  virtual void CountIn(CarrierCounts* carrier_counts) { carrier_counts_ = carrier_counts; }
  // Null: batches are not counted.
  CarrierCounts* carrier_counts() const { return carrier_counts_; }
  // For compressed/: one batch uses it at a time.
  Scratch* scratch() { return &scratch_; }

 protected:
  void Count(Carrier carrier, OpKind kind) {
    if (carrier_counts_ != nullptr) carrier_counts_->Count(carrier, kind);
  }

 private:
  CarrierCounts* carrier_counts_ = nullptr;
  Scratch scratch_;
};

}  // namespace hvdlite::comm
