// Engine: one rank's side of the job: takes operations from user threads and carries them out
// together with the other ranks. Knows no framework.
//
// Who works: the *turn* belongs to one thread at a time. A thread that waits for a result takes the
// turn and carries the operations out itself; the background thread, woken by a submission or by a
// peer, does it only while no thread waits. The turn never blocks (see comm/communicator.h); the
// holder sleeps only in Idle().
//
// Thread-safety: public members from any thread. Failure: one rank's failure ends the job on all
// ranks: after the first kPeerLost, kIo or kInternal the engine is aborted, and everything
// outstanding and later ends with that status. A kMismatch concerns one operation only. Lifetime:
// Stop (or Shutdown) before destruction; handles outlive the engine.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/config.h"
#include "base/jitter.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/until.h"
#include "comm/world.h"
#include "engine/idle.h"
#include "engine/observe/observer.h"
#include "engine/observe/question.h"
#include "engine/observe/silence.h"
#include "engine/observe/stall.h"
#include "engine/outage.h"
#include "engine/process_set.h"

namespace hvdlite::engine {

struct EngineOptions {
  int rank = 0;
  int size = 1;
  std::string store_prefix;
  transport::tcp::Secret secret{};
  Config config;
  std::string release;    // of hvdlite; equal on all ranks
  comm::mpi::Access mpi;  // what this rank has, if the user asked
  // Process sets that exist from the start, with ids 1, 2, ... Equal on all ranks.
  std::vector<std::vector<int>> process_sets;
};

class Engine {
 public:
  // Meets the other ranks. `store` may be null when size is 1; it is used during this call only.
  static Status Start(const EngineOptions& options, rendezvous::Store* store,
                      std::unique_ptr<Engine>* engine);
  ~Engine() NO_THREAD_SAFETY_ANALYSIS;

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }
  const rendezvous::Roster& roster() const { return world_->roster(); }
  const Config& config() const { return options_.config; }

  // A name for an operation whose caller gave none (see Inbox).
  std::string DefaultName(int set, const std::string& kind) EXCLUDES(sets_mutex_);
  // Submits one operation to a process set. `will_wait` says that the caller calls Wait at once, so
  // no other thread needs to wake.
  Status Submit(int set, Submission submission, bool will_wait, HandlePtr* handle);
  // Submits operations that become ready, and fail, together: their requests name the same group.
  Status SubmitGroup(int set, std::vector<Submission> submissions, std::vector<HandlePtr>* handles);
  // Works, or waits, until the handle is done or about `slice` has passed; true when done. A signal
  // ends it early.
  bool Wait(const Handle& handle, Nanos slice);

  // The members of a set, ascending; empty if there is no such set.
  std::vector<int> SetRanks(int set) EXCLUDES(sets_mutex_);
  // The same without a copy; null if there is no such set.
  std::shared_ptr<const std::vector<int>> Members(int set) EXCLUDES(sets_mutex_);
  std::vector<int> SetIds() EXCLUDES(sets_mutex_);
  // Why the set communicates as it does, in one sentence; empty if there is no such set, or this
  // rank is not in it.
  std::string Explain(int set) EXCLUDES(sets_mutex_);
  // Whether tensors on GPUs can be taken as they are; else a sentence why not.
  Status CanUseGpus() { return world_->card().Usable(); }
  // Which GPU this memory lies on.
  Status GpuOf(const void* memory, int* ordinal) { return world_->card().Find(memory, ordinal); }
  // Whether tensors go over MPI.
  bool uses_mpi() const { return world_->mpi().use; }

  // Leaves in good order: everything announced by this rank still happens; all ranks' engines end.
  // Waits at most until the deadline. OK, or why the job has failed instead: before this call, or
  // meanwhile.
  Status Shutdown(Deadline deadline);
  // Ends at once and tells the others why (an exception on this rank).
  void Abort(const Status& reason);
  // OK, or why nothing can be submitted any more.
  Status health() EXCLUDES(end_mutex_);
  // The same, but OK after an end in good order.
  Status failure() EXCLUDES(end_mutex_);
  // The timeline of this rank, from now on. On a rank that writes none: those that do learn when
  // this one asks.
  Status StartTimeline(const std::string& path, bool mark_cycles);
  void StopTimeline() {
    arrivals_watched_ = false;
    observer_.timeline().Stop();
  }
  // Counters, and the last operations of this rank, as JSON.
  std::string Metrics();
  std::string Recent() { return observer_.Recent(); }
  // For the thread that can tell where the user's program is.
  Question& question() { return question_; }
  // In a forked child: closes what would keep the parent's death hidden. The engine must not be
  // used afterwards.
  void AbandonInChild() NO_THREAD_SAFETY_ANALYSIS;

 private:
  explicit Engine(const EngineOptions& options);

  // engine.cc
  Status Connect(rendezvous::Store* store, Deadline deadline);
  Status MemberSet(int id, std::shared_ptr<ProcessSet>* set) EXCLUDES(sets_mutex_);
  // Ends everything outstanding, and everything to come, with `reason`.
  void Finish(const Status& reason) REQUIRES(turn_);
  void Count(const Handle& handle, int change);

  // sets.cc: process sets
  Status AddSet(std::vector<int> ranks, int id, const Until& until) REQUIRES(turn_);
  Status CheckRanks(const std::vector<int>& sorted) const;
  Status CheckPlace(int id, const Request& request, bool in_group) const;
  std::shared_ptr<ProcessSet> FindSet(int id) EXCLUDES(sets_mutex_);
  void ChangeSets(ProcessSet* world, const Response& response) REQUIRES(turn_);
  // OK, or the death of a rank whose link would have told in a turn.
  Status LookForTheDead() REQUIRES(turn_);

  // gpu.cc: tensors on GPUs For each producing stream: the event behind its work so far, recorded
  // once per call of the user's.
  using ProducerEvents = std::map<device::Stream, device::EventPtr>;
  Status PrepareGpu(const ProcessSet& set, Submission* submission, Handle* handle,
                    ProducerEvents* produced_by, std::vector<device::EventPtr>* ready);
  Status FindGpu(ProcessSet* set) REQUIRES(turn_);
  void MarkEnqueued(ProcessSet* set, std::unique_ptr<Running> running, PendingBatchPtr pending)
      REQUIRES(turn_);
  void CheckInFlight(ProcessSet* set) REQUIRES(turn_);
  // Aborts what is in flight. Once EndAbortGpu has returned, the device uses none of it unless it
  // hangs.
  void BeginAbortGpu(ProcessSet* set, const Status& reason) REQUIRES(turn_);
  void EndAbortGpu(ProcessSet* set, const Deadline& deadline) REQUIRES(turn_);
  void ShutDownGpu(ProcessSet* set, const Status& reason) REQUIRES(turn_);
  void FreeInFlight(ProcessSet* set, const Lookout& meanwhile = nullptr);

  // cycle.cc: one turn of the loop
  bool Cycle() REQUIRES(turn_);
  bool Turn(Nanos now) REQUIRES(turn_);
  bool TurnSet(ProcessSet* set, Nanos now) REQUIRES(turn_);
  void Announce(ProcessSet* set, Nanos now) REQUIRES(turn_);
  void Begin(ProcessSet* set, Decision decision, Nanos now) REQUIRES(turn_);
  bool Remember(ProcessSet* set, Response* response) REQUIRES(turn_);
  bool Progress(ProcessSet* set) REQUIRES(turn_);
  void CompleteRunning(ProcessSet* set) REQUIRES(turn_);
  void FailRunning(ProcessSet* set) REQUIRES(turn_);
  void Complete(ProcessSet* set, Entry* entry, Status status) REQUIRES(turn_);
  void CloseInbox(ProcessSet* set, const Status& reason) REQUIRES(turn_);
  // A link of the set is broken, because a rank leaves, the set ends or a rank has failed:
  // waits a moment for news of which, and of who is to blame.
  void LinkFailed(ProcessSet* set, Status status) REQUIRES(turn_);
  void CheckSuspicions(Nanos now) REQUIRES(turn_);
  // The job has failed; tells the others.
  void FailNow(Status status) REQUIRES(turn_);

  // wait.cc: who turns, who sleeps
  void StartBackground();
  void Background();
  enum class Driven : uint8_t { kOver, kGaveWay };
  Driven Drive(const Handle& handle, Nanos until) REQUIRES(turn_);
  bool IdleInTurn(Nanos span) REQUIRES(turn_);
  Nanos LongestNap(Nanos now) REQUIRES(turn_);
  void BackgroundTurn(Backoff* backoff) RELEASE(turn_);
  void CollectPollFds(std::vector<pollfd>* fds) REQUIRES(turn_);
  void NotifyWaiters();
  void Submitted(bool will_wait, bool will_be_told);
  // Whether the background thread has something to do that no thread waits for.
  bool HasUrgent(Nanos now) const;
  // When what has been submitted should leave at the latest, if nothing more comes.
  Nanos GatheredBy(Nanos now) const;
  void LetGather();
  void WakeBackground();
  // Takes the turn even while another thread waits for something that may never come: the driver
  // gives way.
  void TakeTurn() ACQUIRE(turn_);
  void ReturnTurn() RELEASE(turn_);
  // Gives the turn back, then tells those who left a Completion how their operations have ended.
  void UnlockAndTell() RELEASE(turn_);
  bool MayLeave(Nanos now) REQUIRES(turn_);

  // tick.cc: what happens a few times a second, whether anything is going on or not
  void Tick(Nanos now) REQUIRES(turn_);
  void CheckSilence(Nanos now) REQUIRES(turn_);
  void CheckOutages(Nanos now, Nanos limit) REQUIRES(turn_);
  void CheckStalls(Nanos now) REQUIRES(turn_);
  void SpeakVerdict(ProcessSet* set) REQUIRES(turn_);

  // How often the heart beats and the dead are looked for; also the longest sleep.
  static constexpr Nanos kTickEvery = 200 * kMillisecond;

  const EngineOptions options_;
  const Logger log_;
  const Jitter jitter_;  // called wherever threads or ranks race
  std::unique_ptr<comm::World> world_;

  Mutex turn_;
  // guards the map; the sets themselves belong to the turn, their inboxes to any thread
  Mutex sets_mutex_;
  std::map<int, std::shared_ptr<ProcessSet>> sets_ GUARDED_BY(sets_mutex_);
  std::vector<std::shared_ptr<ProcessSet>> active_
      GUARDED_BY(turn_);                            // the sets this rank is a member of
  uint32_t next_set_number_ GUARDED_BY(turn_) = 0;  // for World::Connect; never reused
  std::vector<int> free_ids_ GUARDED_BY(turn_);     // of removed sets, oldest first
  int next_id_ GUARDED_BY(turn_) = 0;

  // Life.
  Mutex end_mutex_;
  Status end_ GUARDED_BY(end_mutex_);  // why nothing more can be submitted
  std::atomic<bool> ended_{false};
  std::atomic<bool> leaving_{false};  // Shutdown was called here
  bool leave_announced_ GUARDED_BY(turn_) = false;
  Nanos leave_by_ GUARDED_BY(turn_) = 0;  // until when this rank's own operations are waited for
  Status closing_ GUARDED_BY(turn_);      // all have agreed to end; finishing what is decided
  Nanos closing_until_ GUARDED_BY(turn_) = 0;

  std::vector<HandlePtr> to_tell_ GUARDED_BY(turn_);  // who has ended and wants to hear of it

  // Waiting.
  std::atomic<int> outstanding_{0};  // submitted and not done
  std::atomic<int> urgent_{0};       // of those, the ones that are not patient
  bool leaves_it_to_waiters_ =
      false;  // patient operations: every processor of the host has a rank to run
  std::atomic<int> waiters_{0};           // user threads inside Wait
  std::atomic<int> turn_wanted_{0};       // threads inside TakeTurn: no other may begin to drive
  std::atomic<int> sleeping_waiters_{0};  // of those, the ones that sleep on waiters_cv_
  Mutex waiters_mutex_;
  CondVar waiters_cv_;
  std::atomic<uint32_t> gate_{0};  // futex word of the background thread while it has nothing to do
  std::atomic<uint64_t> background_wakes_{0};
  std::atomic<bool> gate_closed_{false};  // it sleeps there
  std::atomic<bool> stopping_{false};
  std::thread background_;
  std::unique_ptr<Apart> apart_;
  std::unique_ptr<Patience> patience_;
  Nanos window_ = 0;  // how long the background thread lets submissions gather

  Observer observer_;
  std::atomic<bool> arrivals_watched_{
      false};  // this rank's program has started a timeline, here or elsewhere
  Question question_;
  std::atomic<Nanos> last_submission_{0};  // or since when there is a job
  std::atomic<bool> last_is_told_{false};  // its submitter does not wait but has a callback

  // tick.cc
  // A stall of one process set, while the root waits for answers to "where are you?".
  struct Stall {
    StallReport report;
    Nanos speak_at = 0;
  };
  std::map<int, Stall> stalls_ GUARDED_BY(turn_);  // by set id
  std::map<int, Nanos> next_stall_check_ GUARDED_BY(turn_);
  Silences silences_ GUARDED_BY(turn_){3 * kTickEvery};         // of the ranks of this host
  Silences remote_silences_ GUARDED_BY(turn_){3 * kTickEvery};  // of the tree's edges between hosts
  Outages outages_ GUARDED_BY(turn_){3 * kTickEvery};           // of all links
  std::atomic<Nanos> last_tick_{0};
};

}  // namespace hvdlite::engine
