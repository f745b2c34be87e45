// Process sets: made, removed and looked up.
#include <poll.h>

#include <algorithm>

#include "engine/engine.h"

namespace hvdlite::engine {

Status Engine::AddSet(std::vector<int> ranks, int id, const Until& until) {
  auto set = std::make_shared<ProcessSet>();
  set->id = id;
  std::sort(ranks.begin(), ranks.end());
  HVDLITE_RETURN_IF_ERROR(CheckRanks(ranks));
  set->ranks = ranks;
  HVDLITE_RETURN_IF_ERROR(world_->Connect(ranks, next_set_number_++, until, &set->group));
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
    agreement.fuse.threshold = options_.config.fusion_threshold;
    agreement.fuse.groups_alone = options_.config.disable_group_fusion;
    set->agreement = std::make_unique<Agreement>(place, set->ranks, agreement);
    active_.push_back(set);
    log_.Debug("process set " + std::to_string(id) + ": " + set->group->why);
  }
  MutexLock lock(sets_mutex_);
  sets_[id] = std::move(set);
  return Status::Ok();
}

// While links are being made no thread turns, so nothing is heard. But the heart beats, what was
// decided before still reaches all members, and the world's links end with the processes behind
// them.
Status Engine::LookForTheDead() {
  world_->segment()
      .line(world_->place().local_rank)
      .heartbeat.fetch_add(1, std::memory_order_seq_cst);
  for (const auto& set : active_) set->agreement->Flush();
  if (world_->segment().aborted()) return world_->segment().abort_status();
  for (const auto& transport : active_[0]->group->transports) {
    pollfd link{transport->fd(), POLLRDHUP, 0};
    if (link.fd < 0 || poll(&link, 1, 0) <= 0) continue;
    return Status::PeerLost(transport->peer(),
                            "rank " + std::to_string(transport->peer()) +
                                " closed the connection: its process has ended or given up");
  }
  return Status::Ok();
}

// All ranks come here at the same point of the world's schedule.
void Engine::ChangeSets(ProcessSet* world, const Response& response) {
  Entry* const entry = world->inbox.Find(response.agreed->request.name);
  const Request& request = response.agreed->request;
  Status status;
  if (request.kind == OpKind::kAddProcessSet) {
    int id = next_id_;
    if (free_ids_.empty()) {
      ++next_id_;
    } else {
      id = free_ids_.front();
      free_ids_.erase(free_ids_.begin());
    }
    const Until until(Deadline::AfterSeconds(options_.config.start_timeout_seconds),
                      [this]() REQUIRES(turn_) { return LookForTheDead(); });
    status = AddSet(std::vector<int>(request.splits.begin(), request.splits.end()), id, until);
    // Who died may not be whose link broke first.
    if (!status.ok()) return LinkFailed(world, std::move(status));
    if (entry != nullptr) entry->handle->number = id;
  } else {
    const int id = static_cast<int>(request.root);
    const std::shared_ptr<ProcessSet> set = FindSet(id);
    if (set != nullptr && id != 0) {
      const Status removed =
          Status::InvalidArgument("process set " + std::to_string(id) + " has been removed");
      ShutDownGpu(set.get(), removed);
      // Before its handles are done: from then on the memory is the callers'.
      set->running.reset();
      CloseInbox(set.get(), removed);
      NotifyWaiters();
      stalls_.erase(id);
      next_stall_check_.erase(id);
      active_.erase(std::remove(active_.begin(), active_.end(), set), active_.end());
      world_->Disconnect(set->group.get());
      free_ids_.push_back(id);
      MutexLock lock(sets_mutex_);
      sets_.erase(id);
    }
    if (entry != nullptr) entry->handle->number = set != nullptr && id != 0 ? 1 : 0;
  }
  if (entry != nullptr) Complete(world, entry, Status::Ok());
}

Status Engine::CheckRanks(const std::vector<int>& sorted) const {
  const bool twice = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  if (!sorted.empty() && !twice && sorted.front() >= 0 && sorted.back() < size())
    return Status::Ok();
  return Status::InvalidArgument("a process set has ranks of 0 to " + std::to_string(size() - 1) +
                                 ", each at most once, not " +
                                 ToString(Shape(sorted.begin(), sorted.end())));
}

// What only makes sense among all ranks, or alone, or not at all.
Status Engine::CheckPlace(int id, const Request& request, bool in_group) const {
  const std::string name(Name(request.kind));
  if (in_group && !Has(request.kind, kGroups)) {
    return Status::InvalidArgument(name + " cannot be part of a group");
  }
  if (!Has(request.kind, kChangesSets)) return Status::Ok();
  if (id != 0)
    return Status::InvalidArgument(name +
                                   " is an operation of all ranks: submit it to process set 0");
  if (request.kind == OpKind::kRemoveProcessSet) return Status::Ok();
  std::vector<int> ranks;
  for (int64_t rank : request.splits)
    ranks.push_back(static_cast<int>(std::clamp<int64_t>(rank, -1, size())));
  std::sort(ranks.begin(), ranks.end());
  return CheckRanks(ranks);
}

std::shared_ptr<ProcessSet> Engine::FindSet(int id) {
  MutexLock lock(sets_mutex_);
  const auto found = sets_.find(id);
  return found == sets_.end() ? nullptr : found->second;
}

std::vector<int> Engine::SetRanks(int id) {
  const std::shared_ptr<const std::vector<int>> members = Members(id);
  return members == nullptr ? std::vector<int>() : *members;
}

std::shared_ptr<const std::vector<int>> Engine::Members(int id) {
  std::shared_ptr<ProcessSet> set = FindSet(id);
  if (set == nullptr) return nullptr;
  const std::vector<int>* const ranks = &set->ranks;
  return {std::move(set), ranks};
}

std::string Engine::Explain(int id) {
  const std::shared_ptr<ProcessSet> set = FindSet(id);
  if (set == nullptr) return "";
  TakeTurn();
  std::string why = set->group->why;
  if (set->on_gpu != nullptr) why += ". Tensors on GPUs: " + set->on_gpu->why();
  ReturnTurn();
  return why;
}

std::vector<int> Engine::SetIds() {
  MutexLock lock(sets_mutex_);
  std::vector<int> ids;
  for (const auto& [id, set] : sets_) ids.push_back(id);
  return ids;
}

}  // namespace hvdlite::engine
