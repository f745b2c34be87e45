// InFlight: a process set's side of the GPU: its communicator, and the batches that are enqueued on
// the device's stream and may not have finished there. The handles of those batches are done.
//
// Before the set's first batch on a GPU there is no communicator, and every member does nothing.
// Thread-safety: for the holder of the turn.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/until.h"
#include "comm/gpu/communicator.h"
#include "comm/world.h"
#include "engine/complete/pending_batch.h"
#include "engine/execute/running.h"

namespace hvdlite::engine {

class InFlight {
 public:
  // Makes the communicator, unless it is there, and opens this rank's GPU if it has one by now.
  Status Open(comm::World* world, const comm::Group& group);
  comm::gpu::Communicator* communicator() const { return communicator_.get(); }
  bool open() const { return communicator_ != nullptr; }
  bool Carries(const Running& running) const {
    return open() && running.communicator == communicator_.get();
  }
  // Why tensors on GPUs travel as they do.
  std::string why() const { return open() ? communicator_->why() : ""; }

  void Add(std::unique_ptr<Running> running, PendingBatchPtr pending);
  bool empty() const { return batches_.empty(); }
  // Drops the batches that the device has finished. Fails if the device has failed.
  Status Sweep();
  // Whether the communicator has failed.
  Status Look() { return open() ? communicator_->Look() : Status::Ok(); }

  // The job or the set ends. `running`, if it is on the GPU, becomes part of what is in flight. The
  // handles fail first, so that no caller takes the memory of an aborted batch for a result. Sets
  // all begin to abort before any ends. `alone`: the other members do not end just now, so none
  // waits for them.
  void BeginAbort(const Status& reason, bool alone, std::unique_ptr<Running>* running);
  // Afterwards the device uses none of the batches, unless it hangs.
  void EndAbort(const Deadline& deadline);
  // What EndAbort may take.
  static Deadline AbortDeadline();

  // The set is removed: waits for the stream, ...
  void Drain(const Lookout& look);
  // ... and ends the communicator together with the other members, or alone if one of them has
  // died, which `look` tells. `beat` shows that this rank is alive.
  void ShutDown(const Status& reason, std::unique_ptr<Running>* running, const Lookout& look,
                const Lookout& beat, const Logger& log);
  // Frees what the batches use. Memory that the device does not let go of is leaked.
  void Free(const Logger& log, const Lookout& meanwhile = nullptr);
  // Ends the communicator.
  void Close() { communicator_.reset(); }

 private:
  struct Batch {
    PendingBatchPtr pending;  // null: the job failed while the batch was being enqueued
    std::unique_ptr<Running> running;
  };
  std::unique_ptr<comm::gpu::Communicator> communicator_;
  std::deque<Batch> batches_;  // in the order of the stream
};

}  // namespace hvdlite::engine
