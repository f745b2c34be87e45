#include "engine/sets.h"

#include <algorithm>
#include <utility>

#include "engine/negotiate/named.h"

namespace hvdlite::engine {

Status CheckRanks(const std::vector<int>& sorted, int size) {
  const bool twice = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  if (!sorted.empty() && !twice && sorted.front() >= 0 && sorted.back() < size) return Status::Ok();
  return Status::InvalidArgument("a process set has ranks of 0 to " + std::to_string(size - 1) +
                                 ", each at most once, not " +
                                 ToString(Shape(sorted.begin(), sorted.end())));
}

Status CheckPlace(int id, const Request& request, bool in_group, int rank, int size) {
  const std::string name(Name(request.kind));
  if (in_group && !Has(request.kind, kGroups)) {
    return Status::InvalidArgument(name + " cannot be part of a group");
  }
  if (!Has(request.kind, kChangesSets)) return Status::Ok();
  if (id != 0)
    return Status::InvalidArgument(name +
                                   " is an operation of all ranks: submit it to process set 0");
  if (request.kind == OpKind::kRemoveProcessSet) return Status::Ok();  // names no ranks
  std::vector<int> ranks;
  for (int64_t each : request.splits)
    ranks.push_back(static_cast<int>(std::clamp<int64_t>(each, -1, size)));
  std::sort(ranks.begin(), ranks.end());
  HVDLITE_RETURN_IF_ERROR(CheckRanks(ranks, size));
  if (!Has(request.kind, kAmongNamed) || IsNamed(request, rank)) return Status::Ok();
  return Status::InvalidArgument(name + ": rank " + std::to_string(rank) +
                                 " is not among the ranks " + ToString(request.splits) +
                                 " of the set. Only its members call it");
}

ProcessSetPtr Sets::Find(int id) {
  MutexLock lock(mutex_);
  const auto found = sets_.find(id);
  return found == sets_.end() ? nullptr : found->second;
}

Status Sets::FindMine(int id, int rank, ProcessSetPtr* set) {
  *set = Find(id);
  if (*set == nullptr)
    return Status::InvalidArgument("process set " + std::to_string(id) + " does not exist");
  if ((*set)->member()) return Status::Ok();
  return Status::InvalidArgument(
      "rank " + std::to_string(rank) + " is not a member of process set " + std::to_string(id) +
      ". Call the operation on its members only: if process_set.included(): ...");
}

std::shared_ptr<const std::vector<int>> Sets::Members(int id) {
  ProcessSetPtr set = Find(id);
  if (set == nullptr) return nullptr;
  const std::vector<int>* const ranks = &set->ranks;
  return {std::move(set), ranks};
}

std::vector<int> Sets::Ids() {
  MutexLock lock(mutex_);
  std::vector<int> ids;
  for (const auto& [id, set] : sets_) {
    if (set->given_name.empty()) ids.push_back(id);
  }
  return ids;
}

std::string Sets::DefaultName(int id, const std::string& kind) {
  const ProcessSetPtr set = Find(id);
  return set == nullptr ? std::string() : set->inbox.DefaultName(kind);
}

std::vector<ProcessSetPtr> Sets::All() {
  MutexLock lock(mutex_);
  return AllLocked();
}

std::vector<ProcessSetPtr> Sets::AllLocked() const {
  std::vector<ProcessSetPtr> all;
  for (const auto& [id, set] : sets_) all.push_back(set);
  return all;
}

bool Sets::AllDoneBesideWorld() const {
  return std::all_of(mine_.begin(), mine_.end(), [](const ProcessSetPtr& set) {
    return set->id == 0 || set->inbox.all_done();
  });
}

const Status* Sets::Suspect(Nanos now) const {
  for (const ProcessSetPtr& set : mine_) {
    if (!set->suspicion.open()) continue;
    if (set->id != 0 && !world().idle()) set->suspicion.WaitForWorld(now);
    if (const Status* failure = set->suspicion.Failure(now)) return failure;
  }
  return nullptr;
}

// The host's abort word overtakes decisions that this rank's parent in a tree is just sending. The
// parent obeys too, and its own abort comes behind them on the same edge. The wait ends with this
// abort, with the last decision or, if the parent is lost or stands still, after
// Suspicion::kInWorld.
bool Sets::AwaitDecisions(const Status& why, Nanos now) const {
  const auto awaits = [&why](const ProcessSetPtr& set) {
    const transport::Transport* const parent = set->group->parent;
    const std::vector<int>& lost = why.ranks();
    return set->undecided > 0 && parent != nullptr &&
           std::count(lost.begin(), lost.end(), parent->peer()) == 0;
  };
  if (std::none_of(mine_.begin(), mine_.end(), awaits)) return false;
  world().suspicion.Begin(why, now, /*in_world=*/true);
  return true;
}

int Sets::NewId() {
  if (free_ids_.empty()) return next_id_++;
  const int id = free_ids_.front();
  free_ids_.erase(free_ids_.begin());
  return id;
}

void Sets::Add(ProcessSetPtr set) {
  if (set->member()) mine_.push_back(set);
  MutexLock lock(mutex_);
  const int id = set->id;
  sets_[id] = std::move(set);
}

void Sets::Remove(const ProcessSetPtr& set) {
  mine_.erase(std::remove(mine_.begin(), mine_.end(), set), mine_.end());
  free_ids_.push_back(set->id);
  MutexLock lock(mutex_);
  sets_.erase(set->id);
}

}  // namespace hvdlite::engine
