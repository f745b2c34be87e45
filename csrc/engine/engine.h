// Engine: one rank's side of the job: takes operations from user threads and carries them out
// together with the other ranks. Knows no framework.
//
// turn.h says which thread works; cycle.cc what it does; life.h how the job ends.
//
// Thread-safety: public members from any thread. Failure: one rank's failure ends the job on all
// ranks: after the first kPeerLost, kIo or kInternal the engine is aborted, and everything
// outstanding and later ends with that status. A kMismatch concerns one operation only. Lifetime:
// Stop (or Shutdown) before destruction; handles outlive the engine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/jitter.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/until.h"
#include "comm/world.h"
#include "engine/life.h"
#include "engine/observe/observer.h"
#include "engine/observe/stall_watch.h"
#include "engine/observe/vigil.h"
#include "engine/sets.h"
#include "engine/turn.h"

namespace hvdlite::engine {

struct EngineOptions {
  int rank = 0;
  int size = 1;
  std::string store_prefix;
  transport::tcp::Secret secret{};
  Config config;
  std::string release;                 // of hvdlite; equal on all ranks
  comm::mpi::Access mpi;               // what this rank has, if the user asked
  pool::Segment* gradients = nullptr;  // of this process; null: none. Borrowed
  // Process sets that exist from the start, with ids 1, 2, ... Equal on all ranks.
  std::vector<std::vector<int>> process_sets;
};

class Engine final : private Turn::Worker {
 public:
  // Meets the other ranks. `store` may be null when size is 1; it is used during this call only.
  static Status Start(const EngineOptions& options, rendezvous::Store* store,
                      std::unique_ptr<Engine>* engine);
  ~Engine() NO_THREAD_SAFETY_ANALYSIS override;

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }
  // For what does not change once the engine has started: the roster, the GPUs, the use of MPI.
  comm::World& world() { return *world_; }
  // For those of its members that any thread may call.
  Sets& sets() { return sets_; }
  const Life& life() const { return life_; }
  Observer& observer() { return observer_; }

  // Submits one operation to a process set. `will_wait` says that the caller calls Wait at once, so
  // no other thread needs to wake.
  Status Submit(int set, Submission submission, bool will_wait, HandlePtr* handle);
  // Submits operations that become ready, and fail, together: their requests name the same group.
  Status SubmitGroup(int set, std::vector<Submission> submissions, std::vector<HandlePtr>* handles);
  // Works, or waits, until the handle is done or about `slice` has passed; true when done. A signal
  // ends it early.
  bool Wait(const Handle& handle, Nanos slice) { return turn_.Wait(handle, slice); }

  // Why the set communicates as it does, in one sentence; empty if there is no such set, or this
  // rank is not in it.
  std::string Explain(int set);
  // Counters, as JSON.
  std::string Metrics();

  // Leaves in good order: everything announced by this rank still happens; all ranks' engines end.
  // Waits at most until the deadline. OK, or why the job has failed instead: before this call, or
  // meanwhile.
  Status Shutdown(Deadline deadline);
  // Ends at once and tells the others why (an exception on this rank).
  void Abort(const Status& reason);
  // In a forked child: closes what would keep the parent's death hidden. The engine must not be
  // used afterwards.
  void AbandonInChild();

 private:
  explicit Engine(const EngineOptions& options);

  // engine.cc: submissions, life
  Status Connect(rendezvous::Store* store, Deadline deadline);
  void Complete(ProcessSet* set, Entry* entry, Status status) REQUIRES(turn_);
  void CloseInbox(ProcessSet* set, const Status& reason) REQUIRES(turn_);
  // A link of the set is broken, because a rank leaves, the set ends or a rank has failed:
  // waits a moment for news of which, and of who is to blame.
  void LinkFailed(ProcessSet* set, Status status) REQUIRES(turn_);
  // The job has failed; tells the others.
  void FailNow(Status status) REQUIRES(turn_);
  // Ends everything outstanding, and everything to come, with `reason`.
  void Finish(const Status& reason) REQUIRES(turn_);

  // change_sets.cc: process sets come and go
  Status AddSet(std::vector<int> ranks, int id, const Until& until) REQUIRES(turn_);
  void ChangeSets(ProcessSet* world, const Response& response) REQUIRES(turn_);
  void RemoveSet(const ProcessSetPtr& set) REQUIRES(turn_);

  // cycle.cc: one turn of the loop
  bool Cycle() override REQUIRES(turn_);
  void CycleSets(Nanos now, bool* moved) REQUIRES(turn_);
  bool CycleSet(ProcessSet* set, Nanos now) REQUIRES(turn_);
  void Announce(ProcessSet* set, Nanos now) REQUIRES(turn_);
  void Begin(ProcessSet* set, Decision decision, Nanos now) REQUIRES(turn_);
  void Execute(ProcessSet* set, std::vector<Response> responses, Nanos now) REQUIRES(turn_);
  bool Progress(ProcessSet* set) REQUIRES(turn_);
  void CompleteRunning(ProcessSet* set) REQUIRES(turn_);
  void FailRunning(ProcessSet* set) REQUIRES(turn_);

  // tick.cc: what happens a few times a second, and what a sleeper needs to know
  void Tick(Nanos now) REQUIRES(turn_);
  void CheckInFlight(ProcessSet* set) REQUIRES(turn_);
  bool ended() const override { return life_.ended(); }
  bool transferring() const override REQUIRES(turn_);
  Nanos PrepareSleep(Nanos now, std::vector<pollfd>* fds) override REQUIRES(turn_);

  const EngineOptions options_;
  const Logger log_;
  const Jitter jitter_;  // called wherever threads or ranks race
  std::unique_ptr<comm::World> world_;
  Turn turn_;
  Sets sets_;
  Life life_;
  Observer observer_;
  Vigil vigil_ GUARDED_BY(turn_);
  StallWatch stalls_ GUARDED_BY(turn_);
};

}  // namespace hvdlite::engine
