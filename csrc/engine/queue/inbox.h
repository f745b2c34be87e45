// Inbox: where user threads leave their operations until the holder of the turn fetches them, and
// the book of names that are outstanding.
//
// One per process set. Thread-safe.
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
  // kInvalidArgument if an operation of that name is outstanding (that one is unaffected); the
  // reason once closed.
  Status Submit(std::unique_ptr<Entry> entry) EXCLUDES(mutex_);
  // All or none: a group must not be torn apart.
  Status SubmitGroup(std::vector<std::unique_ptr<Entry>> entries) EXCLUDES(mutex_);

  // The next name for an operation of that kind whose caller gave none: "noname.<n>". All members
  // count alike, because they make the same calls; after a join, which some reach with more calls
  // than others, all start again.
  std::string DefaultName(const std::string& kind) EXCLUDES(mutex_);
  void RestartDefaultNames() EXCLUDES(mutex_);

  // Without a lock: is there anything to fetch?
  bool empty() const { return waiting_.load(std::memory_order_seq_cst) == 0; }
  // Nothing is outstanding.
  bool all_done() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return outstanding_.empty();
  }
  // Moves the submitted entries into `out`, in order. They stay outstanding.
  void Fetch(std::vector<Entry*>* out) EXCLUDES(mutex_);
  // The outstanding entry of that name, or null (this rank has joined, or has not asked).
  Entry* Find(const std::string& name) EXCLUDES(mutex_);
  // Ends an entry: forgets its name, then completes its handle.
  void Complete(Entry* entry, Status status) EXCLUDES(mutex_);
  // Completes everything outstanding with `reason` and refuses everything from now on with the
  // same. Returns the handles of what that was.
  std::vector<HandlePtr> Close(const Status& reason) EXCLUDES(mutex_);

 private:
  Status AddLocked(std::unique_ptr<Entry> entry) REQUIRES(mutex_);

  Mutex mutex_;
  // By name, which is the entry's own.
  std::unordered_map<std::string_view, std::unique_ptr<Entry>> outstanding_ GUARDED_BY(mutex_);
  std::vector<Entry*> submitted_ GUARDED_BY(mutex_);
  std::unordered_map<std::string, int64_t> unnamed_ GUARDED_BY(mutex_);
  std::atomic<size_t> waiting_{0};
  bool closed_ GUARDED_BY(mutex_) = false;
  bool joining_ GUARDED_BY(mutex_) = false;
  Status reason_ GUARDED_BY(mutex_);
};

}  // namespace hvdlite::engine
