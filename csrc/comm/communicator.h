// Communicator: performs collectives among the members of one process set.
//
// There is a folder per implementation (self, shm, net, hierarchical, mpi, nccl, gpu). All members
// start the same batches in the same order, one at a time but for Exchanges. Nothing here ever
// blocks: Start() returns a Work, and the engine calls its Advance() until it is done. So a rank
// that belongs to several process sets can never deadlock between them. Only the engine waits, and
// it notices a dead peer, a deadline or Ctrl-C. Thread-safety: one thread at a time (the holder of
// the engine's turn).
#pragma once

#include <poll.h>

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "comm/batch.h"
#include "comm/carried.h"
#include "comm/encoded_scratch.h"
#include "comm/tunables.h"

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

class Exchanges;

class Communicator {
 public:
  virtual ~Communicator() = default;

  // For logs, the timeline and `choose`: "shm", "net", ...
  virtual const char* name() const = 0;
  // The algorithm of this batch, as a sentence ("ring: 4 MiB >= 256 KiB").
  virtual std::string Explain(const Batch& batch) const = 0;
  // `batch` must outlive the returned work. Never null.
  virtual std::unique_ptr<Work> Start(const Batch& batch) = 0;
  // Starts a stream of alltoalls and allgathers, of which several may be under way. No other batch
  // is started before they have ended.
  virtual std::unique_ptr<Exchanges> StartExchanges();
  // Whether several of them are under way indeed; the same on all members.
  virtual bool overlaps_exchanges() const { return false; }
  // As Start(), of an allreduce with a codec, which Start() does not obey: by owners, with encoded
  // shares as bytes of this communicator's alltoall and allgather. `me`: of `members`.
  virtual std::unique_ptr<Work> StartEncoded(const Batch& batch, int me, int members);
  // The same of a sparse allreduce: elements with their positions as bytes of an allgather.
  std::unique_ptr<Work> StartSparse(const Batch& batch, int me, int members);
  // Whether an encoded allreduce is dense among some members, and encoded among the others.
  virtual bool encodes_between_hosts() const { return false; }
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
  // Counts batches in `carried` from now on. Borrowed.
  virtual void CountIn(Carried* carried) { carried_ = carried; }

 protected:
  void Count(Carrier carrier, OpKind kind) {
    if (carried_ != nullptr) carried_->Count(carrier, kind);
  }
  Carried* carried() const { return carried_; }

 private:
  Carried* carried_ = nullptr;
  EncodedScratch encoded_;
};

}  // namespace hvdlite::comm
