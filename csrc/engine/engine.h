// Engine: one rank's side of the job. It takes operations from user threads and performs them
// together with the other ranks. It knows no framework.
//
// turn.h describes which thread works, cycle.cc what that thread does, and life.h how the job ends.
//
// Thread-safety: public members from any thread. Failure: one rank's failure ends the job on all
// ranks. After the first kPeerLost, kIo or kInternal the engine is aborted, and every outstanding
// or later operation ends with that status. A kMismatch fails one operation only. Lifetime: Stop
// (or Shutdown) before destruction; handles outlive the engine.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/jitter.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/until.h"
#include "comm/world.h"
#include "engine/fast_path.h"
#include "engine/life.h"
#include "engine/observe/observer.h"
#include "engine/observe/result_watch.h"
#include "engine/observe/stall_watch.h"
#include "engine/observe/vigil.h"
#include "engine/sets.h"
#include "engine/tune/tuning.h"
#include "engine/turn.h"

namespace hvdlite::engine {

struct EngineOptions {
  int rank = 0;
  int size = 1;
  std::string store_prefix;
  uint32_t generation = 0;          // of an elastic job; 0: the job is not elastic
  int slot = 0;                     // on this host, in an elastic job
  transport::tcp::Secret secret{};  // of the generation
  int seconds_to_meet = 0;          // fewer than the start timeout; 0: as many
  Config config;
  std::string release;                 // of hvdlite; equal on all ranks
  comm::mpi::Access mpi;               // this rank's MPI, if the user asked for it
  pool::Segment* gradients = nullptr;  // of this process, borrowed; null: none
  // How often a user has asked what this process does; borrowed. Null: no user can ask.
  const std::atomic<uint32_t>* report_requests = nullptr;
  // Process sets that exist from the start, with ids 1, 2, ... Equal on all ranks.
  std::vector<std::vector<int>> process_sets;
};

// How long the ranks have to meet.
double SecondsToMeet(const EngineOptions& options);

class Engine final : private Turn::Worker {
 public:
  // Meets the other ranks. `store` may be null when size is 1; it is used during this call only.
  static Status Start(const EngineOptions& options, rendezvous::Store* store,
                      std::unique_ptr<Engine>* engine);
  ~Engine() NO_THREAD_SAFETY_ANALYSIS override;

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }
  // The parts that do not change once the engine has started: the roster, the GPUs, the use of MPI.
  comm::World& world() { return *world_; }
  // Only for those members that any thread may call.
  Sets& sets() { return sets_; }
  const Life& life() const { return life_; }
  Observer& observer() { return observer_; }

  // Submits one operation to a process set. `will_wait`: the caller calls Wait at once, so no other
  // thread needs to wake.
  Status Submit(int set, Submission submission, bool will_wait, HandlePtr* handle);
  // Performs blocking operations at once, without negotiation, if all members know them from
  // before.
  FastPath& fast_path() { return fast_path_; }
  // Submits operations that become ready, and fail, together: their requests name the same group.
  Status SubmitGroup(int set, std::vector<Submission> submissions, std::vector<HandlePtr>* handles);
  // Works, or waits, until the handle is done or about `slice` has passed; returns true when done.
  // A signal ends it early.
  bool Wait(const Handle& handle, Nanos slice) { return turn_.Wait(handle, slice); }

  // The reason for the set's communicator, in one sentence. Empty if there is no such set, or this
  // rank is not in it.
  std::string Explain(int set);
  // Counters, as JSON.
  std::string Metrics();

  // Leaves in good order: everything that this rank has announced still happens, and the engines of
  // all ranks end. Waits until the deadline at most. Returns OK, or the failure of the job, whether
  // it came before this call or during it.
  Status Shutdown(Deadline deadline);
  // Ends at once and sends the other ranks the reason (an exception on this rank).
  void Abort(const Status& reason);
  // In a forked child: closes the descriptors that would hide the parent's death. The engine must
  // not be used afterwards.
  void AbandonInChild();

 private:
  explicit Engine(const EngineOptions& options);

  // engine.cc: submissions, life
  Status Connect(rendezvous::Store* store, Deadline deadline);
  // `tensor` of a list that is carried out tensor by tensor has ended; -1: the whole entry.
  void Complete(ProcessSet* set, Entry* entry, int tensor, Status status) REQUIRES(turn_);
  void CloseInbox(ProcessSet* set, const Status& reason) REQUIRES(turn_);
  // A link of the set is broken: a rank leaves, the set ends or a rank has failed. Waits a moment
  // for news of which it is, and which rank is the cause.
  void LinkFailed(ProcessSet* set, Status status) REQUIRES(turn_);
  // Fails the job and tells the other ranks.
  void FailNow(Status status) REQUIRES(turn_);
  // Ends everything outstanding, and everything submitted later, with `reason`.
  void Finish(const Status& reason) REQUIRES(turn_);

  // change_sets.cc: adds and removes process sets
  Status AddSet(std::vector<int> ranks, int id, std::string name, const Until& until)
      REQUIRES(turn_);
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

  // tick.cc: periodic checks, and what a thread needs before it sleeps
  void Tick(Nanos now) REQUIRES(turn_);
  void CheckInFlight(ProcessSet* set) REQUIRES(turn_);
  bool ended() const override { return life_.ended(); }
  Transfers transfers() const override REQUIRES(turn_);
  Nanos PrepareSleep(Nanos now, std::vector<pollfd>* fds) override REQUIRES(turn_);

  const EngineOptions options_;
  const Logger log_;
  const Jitter jitter_;  // called wherever threads or ranks race
  std::unique_ptr<comm::World> world_;
  Turn turn_;
  Sets sets_;
  Life life_;
  Observer observer_;
  FastPath fast_path_;
  Vigil vigil_ GUARDED_BY(turn_);
  StallWatch stalls_ GUARDED_BY(turn_);
  ResultWatch results_ GUARDED_BY(turn_);
  std::unique_ptr<Tuning> tuning_ GUARDED_BY(turn_);  // null: off
};

}  // namespace hvdlite::engine
