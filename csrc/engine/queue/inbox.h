// Inbox: holds operations of user threads until the holder of the turn fetches them, and the names
// of outstanding operations.
//
// There is one per process set. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "engine/entry.h"

namespace hvdlite::engine {

class Inbox {
 public:
  // kDuplicateName if an operation of that name is outstanding (that one is unaffected). After
  // Close, the reason given there.
  Status Submit(std::unique_ptr<Entry> entry) EXCLUDES(mutex_);
  // Submits all or none, so that no group is split.
  Status SubmitGroup(std::vector<std::unique_ptr<Entry>> entries) EXCLUDES(mutex_);

  // The next name for an operation of that kind without a name: "noname.<n>". All members count
  // alike, because they make the same calls. Some members have made more calls than others when
  // they join, so after a join all restart.
  std::string DefaultName(const std::string& kind) EXCLUDES(mutex_);
  void RestartDefaultNames() EXCLUDES(mutex_);
  // Gives an outstanding entry the next of these names.
  void GiveDefaultName(Entry* entry) EXCLUDES(mutex_);

  // Whether there is nothing to fetch. Takes no lock.
  bool empty() const { return waiting_.load(std::memory_order_seq_cst) == 0; }
  // Whether nothing is outstanding.
  bool all_done() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return outstanding_.empty();
  }
  // Moves the submitted entries to the end of `out`, in order. They stay outstanding.
  void Fetch(std::vector<Entry*>* out) EXCLUDES(mutex_);
  // The outstanding entry of that name. Null if this rank has joined, or has not asked.
  Entry* Find(const std::string& name) EXCLUDES(mutex_);
  // The same, or the outstanding list that has a tensor of that name.
  struct Found {
    Entry* entry = nullptr;
    int tensor = -1;  // its number in the list; -1: the entry has the name itself
  };
  Found FindTensor(const std::string& name) EXCLUDES(mutex_);
  // Ends an entry: forgets its name, then completes its handle.
  void Complete(Entry* entry, Status status) EXCLUDES(mutex_);
  // Completes everything outstanding with `reason` and refuses later submissions with the same.
  // Returns the handles that it completed.
  std::vector<HandlePtr> Close(const Status& reason) EXCLUDES(mutex_);

 private:
  std::string DefaultNameLocked(const std::string& kind) REQUIRES(mutex_);
  Status AddLocked(std::unique_ptr<Entry> entry) REQUIRES(mutex_);
  // Whether an outstanding operation has the name, or is a list that has a tensor of that name.
  bool IsTakenLocked(const std::string& name) const REQUIRES(mutex_);
  void ForgetLocked(const Entry& entry) REQUIRES(mutex_);

  Mutex mutex_;
  // By name. The key is the entry's own string.
  std::unordered_map<std::string_view, std::unique_ptr<Entry>> outstanding_ GUARDED_BY(mutex_);
  // Of lists whose tensors have names of their own. The keys are the lists' strings.
  std::unordered_map<std::string_view, Found> in_lists_ GUARDED_BY(mutex_);
  std::vector<Entry*> submitted_ GUARDED_BY(mutex_);
  std::unordered_map<std::string, int64_t> unnamed_ GUARDED_BY(mutex_);
  std::atomic<size_t> waiting_{0};
  bool closed_ GUARDED_BY(mutex_) = false;
  bool joining_ GUARDED_BY(mutex_) = false;
  Status reason_ GUARDED_BY(mutex_);
};

}  // namespace hvdlite::engine
