// Sets: the process sets of a job, as this rank knows them.
//
// Thread-safety: what EXCLUDES the mutex from any thread; the rest for the holder of the turn.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "engine/process_set.h"

namespace hvdlite::engine {

using ProcessSetPtr = std::shared_ptr<ProcessSet>;

// DECIDES. Whether these ranks, in ascending order, can be a process set in a job of `size`.
Status CheckRanks(const std::vector<int>& sorted, int size);
// DECIDES. Whether this rank may submit the request to process set `id`: some operations are only
// possible among all ranks, outside a group, or on the ranks that they name.
Status CheckPlace(int id, const Request& request, bool in_group, int rank, int size);

class Sets {
 public:
  // Null if there is no such set.
  ProcessSetPtr Find(int id) EXCLUDES(mutex_);
  // The set, if it exists and `rank` is one of its members.
  Status FindMine(int id, int rank, ProcessSetPtr* set) EXCLUDES(mutex_);
  // The members of a set, ascending; null if there is no such set.
  std::shared_ptr<const std::vector<int>> Members(int id) EXCLUDES(mutex_);
  // The sets that all ranks have added. The others appear at different times on different ranks.
  std::vector<int> Ids() EXCLUDES(mutex_);
  // A name for an operation whose caller gave none (see Inbox); empty if there is no such set.
  std::string DefaultName(int id, const std::string& kind) EXCLUDES(mutex_);
  std::vector<ProcessSetPtr> All() EXCLUDES(mutex_);
  // For a forked child, where another thread of the parent may have held the mutex.
  std::vector<ProcessSetPtr> AllInChild() NO_THREAD_SAFETY_ANALYSIS { return AllLocked(); }

  // The sets this rank is a member of; the world is the first.
  const std::vector<ProcessSetPtr>& mine() const { return mine_; }
  ProcessSet& world() const { return *mine_[0]; }
  // Whether everything submitted here to sets other than the world has happened.
  bool AllDoneBesideWorld() const;
  // Null, or the failure that a set's broken link means by now.
  const Status* Suspect(Nanos now) const;
  // A peer on this host has failed the job. Whether this rank obeys later, because decisions may be
  // on their way to it. Then Suspect returns `why` if they do not come in time.
  bool AwaitDecisions(const Status& why, Nanos now) const;

  // A number for World::Connect, never used before.
  uint32_t NewNumber() { return next_number_++; }
  // The id of the oldest removed set, or a new one.
  int NewId();
  void Add(ProcessSetPtr set) EXCLUDES(mutex_);
  void Remove(const ProcessSetPtr& set) EXCLUDES(mutex_);

 private:
  std::vector<ProcessSetPtr> AllLocked() const REQUIRES(mutex_);

  Mutex mutex_;
  std::map<int, ProcessSetPtr> sets_ GUARDED_BY(mutex_);
  std::vector<ProcessSetPtr> mine_;
  uint32_t next_number_ = 0;
  std::vector<int> free_ids_;
  int next_id_ = 0;
};

}  // namespace hvdlite::engine
