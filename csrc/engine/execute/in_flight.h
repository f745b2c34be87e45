// InFlight: a process set's side of the GPU: its communicator, and the batches that are enqueued on
// the device's stream and may not have finished there. The handles of those batches are done.
//
// Before the set's first batch on a GPU there is no communicator, and every function does nothing.
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
  // Makes the communicator if there is none, and opens this rank's GPU if it has one by now.
  Status Open(comm::World* world, const comm::Group& group);
  comm::gpu::Communicator* communicator() const { return communicator_.get(); }
  bool open() const { return communicator_ != nullptr; }
  bool Carries(const Running& running) const {
    return open() && running.communicator == communicator_.get();
  }
  // Why tensors on GPUs travel this way.
  std::string why() const { return open() ? communicator_->why() : ""; }

  void Add(std::unique_ptr<Running> running, PendingBatchPtr pending);
  bool empty() const { return batches_.empty(); }
  // Whether the device has not finished the last batch. False if the device has failed.
  bool busy() const;
  // Drops the batches that the device has finished. Fails if the device has failed.
  Status Sweep();
  // Whether the communicator has failed.
  Status Look() { return open() ? communicator_->Look() : Status::Ok(); }

  // Aborts when the job or the set ends. `running`, if it is on the GPU, becomes one of the batches
  // in flight. The handles fail first, so that no caller takes the memory of an aborted batch for a
  // result. Begin the aborts of all sets before ending any. `alone`: the other members do not end
  // now, so this one must not wait for them.
  void BeginAbort(const Status& reason, bool alone, std::unique_ptr<Running>* running);
  // Afterwards the device uses none of the batches, unless it hangs.
  void EndAbort(const Deadline& deadline);
  // The time that EndAbort may take.
  static Deadline AbortDeadline();

  // Waits for the stream when the set is removed. `look` reports the death of a member.
  void Drain(const WaitCheck& look);
  // Ends the communicator of a removed set, together with the other members, or alone if `look`
  // reports that one has died. `beat` shows that this rank is alive.
  void ShutDown(const Status& reason, std::unique_ptr<Running>* running, const WaitCheck& look,
                const WaitCheck& beat, const Logger& log);
  // Frees the memory of the batches. Memory that the device still uses is leaked.
  void Free(const Logger& log, const WaitCheck& meanwhile = nullptr);
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
