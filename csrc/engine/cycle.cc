// One turn of the loop. Read this first.
//
//   Cycle: for each process set
//     Announce   send to the set's root what user threads have submitted
//     Exchange   messages; the root decides; all members get the decisions in one order
//     Begin      the next decision: usually a batch for the communicator
//     Progress   the running batch; when it is done, complete its handles
//
// Nothing here blocks, so a rank that waits for peers in one set still moves the others.
#include <new>
#include <utility>

#include "comm/compressed/encoded_allreduce.h"
#include "comm/compressed/sparse_allreduce.h"
#include "engine/engine.h"
#include "engine/execute/prepare.h"

namespace hvdlite::engine {
namespace {

// The members have agreed that only these operations fail.
Decision FailureOf(const Running& running) {
  Decision failure;
  failure.kind = Down::kError;
  failure.status = running.work->status();
  for (const Response& response : running.responses)
    failure.names.push_back(response.agreed->request.name);
  return failure;
}

}  // namespace

bool Engine::Cycle() {
  if (ended()) return false;
  bool moved = false;
  try {
    CycleSets(MonotonicNow(), &moved);
  } catch (const std::bad_alloc&) {
    // The thread holds the turn and half a batch. It can only end the job with an error.
    FailNow(Status::Io("rank " + std::to_string(rank()) +
                       " has no memory left for what it and its peers agreed to do"));
    return true;
  }
  return moved;
}

void Engine::CycleSets(Nanos now, bool* moved) {
  transport::shm::Neighbours& neighbours = world_->neighbours();
  // A neighbour that has left because of a failure has recorded it in the segment.
  if (neighbours.CheckIsDue(now) && !world_->segment().aborted()) {
    const Status dead = neighbours.Check(now);
    if (!dead.ok()) life_.agreed() ? Finish(life_.reason()) : FailNow(dead);
  }
  if (turn_.TickIsDue(now)) Tick(now);
  if (world_->segment().aborted() && !ended()) {
    const Status why = world_->segment().abort_status();
    if (life_.agreed() || !sets_.AwaitDecisions(why, now)) FailNow(why);
  }
  const Status* const suspect = ended() || life_.agreed() ? nullptr : sets_.Suspect(now);
  if (suspect != nullptr) FailNow(*suspect);
  // Iterate by index, because a decision may add or remove a set.
  for (size_t i = 0; i < sets_.mine().size() && !ended(); ++i) {
    const ProcessSetPtr set = sets_.mine()[i];
    *moved |= CycleSet(set.get(), now);
  }
  if (*moved) observer_.Turned(now);
  if (!life_.agreed() || ended()) return;
  bool idle = true;
  for (const ProcessSetPtr& set : sets_.mine()) {
    CheckInFlight(set.get());
    // All members have received the end.
    idle &= set->idle() && set->in_flight.empty() && set->agreement->Flush();
  }
  if (ended()) return;
  if (life_.GraceIsOver(now) || idle) Finish(life_.reason());
  if (idle) sets_.world().agreement->TakeLeave();  // the thread in Shutdown() waits for this
}

bool Engine::CycleSet(ProcessSet* set, Nanos now) {
  bool moved = false;
  set->agreement->WatchArrivals(observer_.watches_arrivals());
  if (!set->inbox.empty() || !set->fetched.empty()) {
    Announce(set, now);
    moved = true;
  }
  if (set->id == 0 && life_.MustAnnounce(now, [this] { return sets_.AllDoneBesideWorld(); }))
    set->agreement->AnnounceShutdown(now);
  Status talk = set->agreement->Exchange(now, &set->heard, &moved);
  if (talk.ok() && set->meets != nullptr) talk = std::exchange(set->meets->unheard, Status());
  for (const Ledger::Arrival& arrival : set->agreement->TakeArrivals())
    observer_.Arrived(*set, arrival);
  Status aborted;
  for (Decision& decision : set->heard) {
    // An abort or the end does not queue behind a batch.
    if (decision.kind == Down::kAbort) {
      aborted = decision.status;
    } else if (decision.kind == Down::kShutdown) {
      life_.Agree(decision.status);
    } else if (decision.kind == Down::kWhere) {
      // at once, because the stalled operation may be the running one
      observer_.question().Ask(now);
    } else if (decision.kind == Down::kVerdict) {
      observer_.question().Tell(decision.names[0]);
    } else {
      set->decided.push_back(std::move(decision));
    }
  }
  set->heard.clear();
  if (!aborted.ok()) FailNow(aborted);
  if (!talk.ok()) LinkFailed(set, talk);
  while (set->running == nullptr && !set->decided.empty() && !ended()) {
    Decision decision = std::move(set->decided.front());
    set->decided.pop_front();
    Begin(set, std::move(decision), now);
    moved = true;
  }
  if (set->meets != nullptr && !ended()) {
    Entry* const performed = fast_path_.Resume(set, now, &moved);
    if (performed != nullptr) Complete(set, performed, /*tensor=*/-1, Status::Ok());
  }
  if (set->running != nullptr && !set->running->failed && !ended()) moved |= Progress(set);
  return moved;
}

void Engine::Announce(ProcessSet* set, Nanos now) {
  set->inbox.Fetch(&set->fetched);
  Status status;
  for (Entry* entry : set->fetched) {
    if (entry->offered) {
      set->meets->offered = entry;
      continue;
    }
    bool by_slot = false;
    const uint64_t slot = set->SlotOf(entry->request, &by_slot);
    observer_.Announced(*set, *entry, by_slot, now);
    set->Announced(entry);
    status = by_slot ? set->agreement->AnnounceSlot(slot, now)
                     : set->agreement->Announce(entry->request, slot, now);
    if (!status.ok()) break;
  }
  set->fetched.clear();
  if (!status.ok()) FailNow(status);
}

void Engine::Begin(ProcessSet* set, Decision decision, Nanos now) {
  ++set->epoch;
  if (decision.kind == Down::kExecute) return Execute(set, std::move(decision.batch), now);
  if (decision.kind == Down::kEvict) {
    set->Forget(decision.slot);
    set->agreement->AnnounceEvicted(decision.slot);
    return;
  }
  if (decision.kind == Down::kTune) {
    if (tuning_ != nullptr) tuning_->Apply(decision.slot, &sets_, &turn_, now);
    return;
  }
  if (decision.kind != Down::kError) return;
  for (const std::string& name : decision.names) {
    const auto [entry, tensor] = set->inbox.FindTensor(name);
    if (entry == nullptr) {
      observer_.FailedElsewhere(*set, name, now);
      continue;
    }
    observer_.Failed(*set, *entry, now);
    Complete(set, entry, tensor, decision.status);
  }
}

void Engine::Execute(ProcessSet* set, std::vector<Response> responses, Nanos now) {
  jitter_();
  auto running = std::make_unique<Running>();
  running->responses = std::move(responses);
  running->started = now;
  for (Response& response : running->responses) {
    if (!set->Remember(&response)) {
      return FailNow(Status::Internal(
          "the ranks of process set " + std::to_string(set->id) +
          " do not remember the same operations; do all run the same version of hvdlite?"));
    }
  }
  const Request& request = running->responses[0].agreed->request;
  const OpKind kind = request.kind;
  if (Has(kind, kChangesSets)) return ChangeSets(set, running->responses[0]);
  running->communicator = set->group->communicator.get();
  if (request.device != DeviceKind::kHost) {
    const Status opened = set->in_flight.Open(world_.get(), *set->group);
    if (!opened.ok()) return FailNow(opened);
    running->communicator = set->in_flight.communicator();
  }
  const Status prepared = Prepare(set, running.get(), &world_->card());
  if (!prepared.ok()) return FailNow(prepared);
  // Before any data moves: a member that is done with this batch finds none that negotiates it.
  for (size_t i = 0; i < running->entries.size(); ++i) {
    if (running->TensorOf(i) < 0) set->Decided(running->entries[i]);
  }
  set->running = std::move(running);
  observer_.Began(*set, *set->running, now);
  results_.Began(*set->running);
  // An operation without a tensor is done by the agreement itself: all members have asked.
  if (!HasTensor(kind)) return CompleteRunning(set);
  comm::Communicator* const over = set->running->communicator;
  const comm::Batch& batch = set->running->batch;
  const int me = set->group->me;
  const int members = static_cast<int>(set->ranks.size());
  if (batch.codec.encodes()) {
    set->running->work = comm::compressed::StartEncoded(over, batch, me, members);
  } else if (batch.sparse) {
    set->running->work = comm::compressed::StartSparse(over, batch, me, members);
  } else {
    set->running->work = over->Start(batch);
  }
}

bool Engine::Progress(ProcessSet* set) {
  switch (set->running->work->Advance()) {
    case comm::Progress::kNone: return false;
    case comm::Progress::kSome:
      life_.Moved();
      set->running->waits_since = 0;
      return true;
    case comm::Progress::kDone: CompleteRunning(set); return true;
    case comm::Progress::kFailed:
      if (set->running->work->failed_alone()) {
        const std::unique_ptr<Running> running = std::move(set->running);
        Begin(set, FailureOf(*running), MonotonicNow());
        return true;
      }
      set->running->failed = true;
      if (life_.agreed()) {
        Finish(life_.reason());
      } else {
        LinkFailed(set, set->running->work->status());
      }
      return false;
  }
  return false;
}

void Engine::CompleteRunning(ProcessSet* set) {
  jitter_();
  std::unique_ptr<Running> running = std::move(set->running);
  const device::EventPtr finished = running->work == nullptr ? nullptr : running->work->finished();
  const PendingBatchPtr pending =
      finished == nullptr ? nullptr : std::make_shared<PendingBatch>(finished);
  if (pending == nullptr) running->work.reset();
  observer_.Ended(*set, *running, MonotonicNow());
  results_.Ended(set, *running);
  if (tuning_ != nullptr) tuning_->Ended(*set, *running, &sets_.world(), MonotonicNow());
  for (size_t i = 0; i < running->entries.size(); ++i) {
    Entry* const entry = running->entries[i];
    if (entry == nullptr) continue;
    if (entry->request.kind == OpKind::kJoin) {
      entry->handle->number = running->responses[i].agreed->request.root;
      set->inbox.RestartDefaultNames();
    }
    if (pending != nullptr) entry->handle->Enqueued(pending);
    Complete(set, entry, running->TensorOf(i), entry->misfit);
  }
  if (pending == nullptr) return;
  set->in_flight.Add(std::move(running), pending);
  CheckInFlight(set);
}

}  // namespace hvdlite::engine
