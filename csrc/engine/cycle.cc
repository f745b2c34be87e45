// One turn of the loop. Read this first.
//
//   Cycle: for each process set
//     Announce   tell the set's root what user threads have submitted
//     Exchange   messages; the root decides; all members hear the decisions in one order
//     Begin      the next decision: usually a batch for the communicator
//     Progress   the running batch; when it is done, complete its handles
//
// Nothing here blocks, so a rank that waits for peers in one set still moves the others.
#include <new>

#include "engine/engine.h"
#include "engine/execute/prepare.h"

namespace hvdlite::engine {

namespace {

// After all have agreed to end, what is decided still happens; if a peer dies just then, it moves
// no more, and this bounds the wait.
constexpr Nanos kClosingGrace = 2 * kSecond;
// How long a rank that leaves waits for its own operations in process sets (those in the world are
// the root's business).
constexpr Nanos kLeaveGrace = 2 * kSecond;

}  // namespace

bool Engine::Cycle() {
  if (ended_.load(std::memory_order_relaxed)) return false;
  try {
    return Turn(MonotonicNow());
  } catch (const std::bad_alloc&) {
    // The thread holds the lock of the turn and half a batch: the only way on is to end the
    // job, with a sentence.
    FailNow(Status::Io("rank " + std::to_string(rank()) +
                       " has no memory left for what it and its peers agreed to do"));
    return true;
  }
}

bool Engine::Turn(Nanos now) {
  if (now - last_tick_.load(std::memory_order_relaxed) > kTickEvery) Tick(now);
  if (world_->segment().aborted()) FailNow(world_->segment().abort_status());
  CheckSuspicions(now);
  bool moved = false;
  // By index: a decision may add or remove a set.
  for (size_t i = 0; i < active_.size() && !ended_; ++i) {
    const std::shared_ptr<ProcessSet> set = active_[i];
    moved |= TurnSet(set.get(), now);
  }
  if (moved) observer_.Turned(now);
  if (!closing_.ok() && !ended_) {
    if (closing_until_ == 0) closing_until_ = now + kClosingGrace;
    bool idle = true;
    for (const auto& set : active_) {
      CheckInFlight(set.get());
      // All have heard the end.
      idle &= set->idle() && set->in_flight.empty() && set->agreement->Flush();
    }
    if (ended_) return moved;
    if (idle || now > closing_until_) Finish(closing_);
    if (idle) active_[0]->agreement->TakeLeave();  // the thread in Shutdown() waits for this
  }
  return moved;
}

bool Engine::TurnSet(ProcessSet* set, Nanos now) {
  bool moved = false;
  set->agreement->WatchArrivals(arrivals_watched_.load(std::memory_order_relaxed));
  if (!set->inbox.empty()) {
    Announce(set, now);
    moved = true;
  }
  if (set->id == 0 && leaving_.load(std::memory_order_acquire) && !leave_announced_ &&
      MayLeave(now)) {
    leave_announced_ = true;
    set->agreement->AnnounceShutdown(now);
  }
  const Status talk = set->agreement->Exchange(now, &set->heard, &moved);
  for (const Ledger::Arrival& arrival : set->agreement->TakeArrivals())
    observer_.Arrived(*set, arrival);
  for (Decision& decision : set->heard) {
    // Neither bad news nor the end queues up behind a batch: from here on, a link that breaks is
    // a rank leaving.
    if (decision.kind == Down::kAbort) {
      FailNow(decision.status);
    } else if (decision.kind == Down::kShutdown) {
      closing_ = decision.status;
    } else if (decision.kind == Down::kWhere) {
      question_.Ask();  // at once: what is under way may be what stands still
    } else {
      set->decided.push_back(std::move(decision));
    }
  }
  set->heard.clear();
  if (!talk.ok()) LinkFailed(set, talk);
  while (set->running == nullptr && !set->decided.empty() && !ended_) {
    Decision decision = std::move(set->decided.front());
    set->decided.pop_front();
    Begin(set, std::move(decision), now);
    moved = true;
  }
  if (set->running != nullptr && !set->running->failed && !ended_) moved |= Progress(set);
  return moved;
}

// Everything this rank has announced still happens. The root knows what it announced in the world;
// in other sets only this rank does, so it says that it leaves only when those are done.
bool Engine::MayLeave(Nanos now) {
  if (leave_by_ == 0) leave_by_ = now + kLeaveGrace;
  if (now > leave_by_) return true;
  for (const auto& set : active_) {
    if (set->id != 0 && !set->inbox.all_done()) return false;
  }
  return true;
}

void Engine::Announce(ProcessSet* set, Nanos now) {
  set->inbox.Fetch(&set->fetched);
  Status status;
  for (Entry* entry : set->fetched) {
    const auto known = set->slot_of.find(entry->request.name);
    const bool by_slot = known != set->slot_of.end() && set->slots[known->second].asked &&
                         set->slots[known->second].mine.SameExceptName(entry->request);
    observer_.Announced(*set, *entry, by_slot, now);
    const uint64_t slot = known == set->slot_of.end() ? kNoSlot : known->second;
    status = by_slot ? set->agreement->AnnounceSlot(slot, now)
                     : set->agreement->Announce(entry->request, slot, now);
    if (!status.ok()) break;
  }
  set->fetched.clear();
  if (!status.ok()) FailNow(status);
}

void Engine::Begin(ProcessSet* set, Decision decision, Nanos now) {
  switch (decision.kind) {
    case Down::kExecute: break;
    case Down::kError:
      for (const std::string& name : decision.names) {
        Entry* const entry = set->inbox.Find(name);
        if (entry == nullptr) {
          observer_.FailedElsewhere(*set, name, now);
          continue;
        }
        observer_.Failed(*set, *entry, now);
        Complete(set, entry, decision.status);
      }
      return;
    case Down::kEvict: {
      const auto slot = set->slots.find(decision.slot);
      if (slot != set->slots.end()) {
        set->slot_of.erase(slot->second.mine.name);
        set->slots.erase(slot);
      }
      set->agreement->AnnounceEvicted(decision.slot);
      return;
    }
    default: return;
  }

  jitter_();
  auto running = std::make_unique<Running>();
  running->responses = std::move(decision.batch);
  running->started = now;
  for (Response& response : running->responses) {
    if (!Remember(set, &response)) {
      return FailNow(Status::Internal(
          "the ranks of process set " + std::to_string(set->id) +
          " do not remember the same operations; do all run the same version of hvdlite?"));
    }
  }
  const OpKind kind = running->responses[0].agreed->request.kind;
  if (Has(kind, kChangesSets)) {
    ChangeSets(set, running->responses[0]);
    return;
  }
  running->communicator = set->group->communicator.get();
  if (running->responses[0].agreed->request.device != DeviceKind::kHost) {
    const Status found = FindGpu(set);
    if (!found.ok()) return FailNow(found);
    running->communicator = set->on_gpu.get();
  }
  const Status prepared = Prepare(set, running.get(), &world_->card());
  if (!prepared.ok()) return FailNow(prepared);
  set->running = std::move(running);
  observer_.Began(*set, *set->running, now);
  if (!HasTensor(kind)) {
    // The agreement itself was the meeting: all members have asked.
    CompleteRunning(set);
    return;
  }
  set->running->work = set->running->communicator->Start(set->running->batch);
}

// Fills in what a slot stands for, or notes what it stands for from now on.
// False if no response has ever said what the slot stands for.
bool Engine::Remember(ProcessSet* set, Response* response) {
  if (response->cached) {
    const auto known = set->slots.find(response->slot);
    if (known == set->slots.end()) return false;
    response->agreed = known->second.agreed;
    return true;
  }
  if (response->slot == kNoSlot) return true;
  const std::string& name = response->agreed->request.name;
  Entry* const entry = set->inbox.Find(name);
  Remembered& remembered = set->slots[response->slot];
  remembered.agreed = response->agreed;
  // A joined rank asked for nothing; what it may ask for later, it sends in full.
  remembered.asked = entry != nullptr;
  remembered.mine = entry != nullptr ? entry->request : Request();
  remembered.mine.name = name;
  set->slot_of[name] = response->slot;
  return true;
}

bool Engine::Progress(ProcessSet* set) {
  switch (set->running->work->Advance()) {
    case comm::Progress::kNone: return false;
    case comm::Progress::kSome:
      closing_until_ = 0;
      set->running->waits_since = 0;
      return true;
    case comm::Progress::kDone: CompleteRunning(set); return true;
    case comm::Progress::kFailed:
      if (set->running->work->failed_alone()) {
        FailRunning(set);
        return true;
      }
      set->running->failed = true;
      if (!closing_.ok()) {
        Finish(closing_);
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
  for (size_t i = 0; i < running->entries.size(); ++i) {
    Entry* const entry = running->entries[i];
    if (entry == nullptr) continue;
    if (entry->request.kind == OpKind::kJoin) {
      entry->handle->number = running->responses[i].agreed->request.root;
      set->inbox.RestartDefaultNames();
    }
    if (pending != nullptr) entry->handle->Enqueued(pending);
    Complete(set, entry, Status::Ok());
  }
  if (pending != nullptr) MarkEnqueued(set, std::move(running), pending);
}

// The members have agreed that these operations fail, and nothing else does.
void Engine::FailRunning(ProcessSet* set) {
  const std::unique_ptr<Running> running = std::move(set->running);
  const Status status = running->work->status();
  for (Entry* const entry : running->entries) {
    if (entry == nullptr) continue;
    observer_.Failed(*set, *entry, MonotonicNow());
    Complete(set, entry, status);
  }
}

}  // namespace hvdlite::engine
