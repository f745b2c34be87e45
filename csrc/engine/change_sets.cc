// Adds and removes process sets. All ranks do so at the same point of the world's schedule, and so
// choose the same id, the same memory and the same numbers of links. A rank outside a named set
// does so in its background thread; its program takes no part.
#include <algorithm>
#include <utility>

#include "engine/engine.h"
#include "engine/negotiate/named.h"

namespace hvdlite::engine {

namespace {

// How often a rank signals that it is alive while a set is removed.
constexpr Nanos kBetweenBeats = 20 * kMillisecond;
// How many cycle times operations on GPUs wait at most for more of them. A backward pass takes
// several.
constexpr Nanos kWindows = 5;

}  // namespace

Status Engine::AddSet(std::vector<int> ranks, int id, std::string name, const Until& until) {
  auto set = std::make_shared<ProcessSet>();
  set->id = id;
  set->given_name = std::move(name);
  std::sort(ranks.begin(), ranks.end());
  HVDLITE_RETURN_IF_ERROR(CheckRanks(ranks, size()));
  set->ranks = ranks;
  HVDLITE_RETURN_IF_ERROR(world_->Connect(ranks, sets_.NewNumber(), until, &set->group));
  if (set->member()) {
    TreePlace place;
    place.me = set->group->me;
    place.parent = set->group->parent;
    for (size_t i = 0; i < set->group->children.size(); ++i) {
      place.children.push_back({set->group->children[i], set->group->tree.children[i].speaks_for});
    }
    AgreementOptions agreement;
    agreement.cache_capacity =
        static_cast<size_t>(std::max<int64_t>(options_.config.cache_capacity, 0));
    set->remembers = agreement.cache_capacity > 0;
    agreement.fuse.threshold =
        tuning_ != nullptr ? tuning_->fusion_threshold() : options_.config.fusion_threshold;
    agreement.fuse.groups_alone = options_.config.disable_group_fusion;
    if (options_.config.fusion_threshold > 0) {
      const auto window = static_cast<Nanos>(options_.config.cycle_time * kMillisecond);
      set->gathering = Gathering({.longest = kWindows * window});
    }
    agreement.keeps = [this, raw = set.get()](const Readiness& readiness, Nanos now) {
      return raw->Keeps(readiness, now, turn_.waited_for());
    };
    if (set->group->may_meet) {
      set->meets = std::make_unique<Meets>(set->group->me);
      agreement.meeting = &set->meets->meeting;
    }
    set->unnamed = Unnamed(set->fast_bytes());
    agreement.steps = [raw = set.get()] { return raw->Steps(); };
    set->agreement = std::make_unique<Agreement>(place, set->ranks, agreement);
    log_.Debug("process set " + std::to_string(id) + ": " + set->group->why);
  }
  sets_.Add(std::move(set));
  return Status::Ok();
}

void Engine::ChangeSets(ProcessSet* world, const Response& response) {
  Entry* const entry = world->inbox.Find(response.agreed->request.name);
  const Request& request = response.agreed->request;
  Status status;
  if (request.kind == OpKind::kAddProcessSet || request.kind == OpKind::kAddNamedProcessSet) {
    const std::string name = Has(request.kind, kAmongNamed) ? GivenName(request) : "";
    const int id = sets_.NewId();
    const Until until(Deadline::AfterSeconds(options_.config.start_timeout_seconds),
                      [this]() REQUIRES(turn_) { return vigil_.BeatAndLook(world_.get(), sets_); });
    status =
        AddSet(std::vector<int>(request.splits.begin(), request.splits.end()), id, name, until);
    // The dead rank may not be the one whose link broke first.
    if (!status.ok()) return LinkFailed(world, std::move(status));
    if (entry != nullptr) entry->handle->number = id;
  } else {
    const int id = static_cast<int>(request.root);
    const ProcessSetPtr set = id == 0 ? nullptr : sets_.Find(id);
    if (set != nullptr) RemoveSet(set);
    if (entry != nullptr) entry->handle->number = set != nullptr ? 1 : 0;
  }
  if (entry != nullptr) Complete(world, entry, /*tensor=*/-1, Status::Ok());
}

// Holds the turn for seconds if the set has tensors on GPUs, but keeps the heartbeat going.
void Engine::RemoveSet(const ProcessSetPtr& set) {
  const Status removed =
      Status::InvalidArgument("process set " + std::to_string(set->id) + " has been removed");
  Nanos next = 0;
  const WaitCheck look = [this, &next]() REQUIRES(turn_) {
    const Nanos now = MonotonicNow();
    if (now < next) return Status::Ok();
    next = now + kBetweenBeats;
    return vigil_.BeatAndLook(world_.get(), sets_);
  };
  const WaitCheck beat = [&look] {
    (void)look();
    return Status::Ok();
  };
  set->in_flight.Drain(look);
  CheckInFlight(set.get());
  set->in_flight.ShutDown(removed, &set->running, look, beat, log_);
  // Do this before the handles are done: from then on the memory is the callers'.
  set->running.reset();
  CloseInbox(set.get(), removed);
  turn_.NotifyWaiters();
  stalls_.Forget(set->id);
  world_->Disconnect(set->group.get());
  sets_.Remove(set);
}

}  // namespace hvdlite::engine
