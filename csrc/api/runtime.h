// Runtime: the process's one engine, and the numbers of its handles in the C interface. The only
// global.
//
// Never destroyed: at exit no static destructor may join a thread or free memory that another
// thread still reads. Thread-safety: any thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "api/hvdlite.h"
#include "base/mutex.h"
#include "engine/engine.h"
#include "rendezvous/tcp_store.h"

namespace hvdlite::api {

class Runtime {
 public:
  static Runtime& Get();

  Status Init(const hvdlite_init_options& options);
  Status Shutdown(double timeout_seconds);
  Status Health();
  Status Ended();
  // Returns null, with a kNotInitialized in *why, if there is no job.
  std::shared_ptr<engine::Engine> engine(Status* why = nullptr);
  bool initialized();
  // In a forked child, the parent's, which can be asked for nothing but its place; otherwise null.
  engine::Engine* inherited() const NO_THREAD_SAFETY_ANALYSIS {
    return forked_ ? engine_.get() : nullptr;
  }

  Status Submit(const hvdlite_operation& operation, int64_t* handle);
  // See hvdlite_run.
  Status Run(const hvdlite_operation& operation, Nanos slice, int64_t* handle);
  Status SubmitGroup(const hvdlite_operation* operations, int count, const char* group,
                     int64_t* handles);
  // See hvdlite_submit_list and hvdlite_run_list.
  Status SubmitList(const hvdlite_list& list, int64_t* handle);
  Status RunList(const hvdlite_list& list, Nanos slice, int64_t* handle);
  // See hvdlite_submit_then.
  Status SubmitThen(const hvdlite_operation& operation, const hvdlite_completion& completion);
  Status SubmitGroupThen(const hvdlite_operation* operations, int count, const char* group,
                         const hvdlite_completion* completions);
  engine::HandlePtr Find(int64_t handle);
  engine::HandlePtr Release(int64_t handle);
  bool forked() const { return forked_; }
  // For a signal handler: a user asks what this process does.
  void RequestReport() { report_requests_.fetch_add(1); }
  void ReleaseAll();

 private:
  Runtime();
  static void BeforeFork();
  static void AfterForkInParent();
  static void AfterForkInChild();
  // Makes the connection with the store, which no child that is forked meanwhile inherits.
  Status ConnectStore(const char* address, const transport::tcp::Secret& secret, Deadline deadline,
                      std::unique_ptr<rendezvous::TcpStore>* store);
  void AbandonLocked() NO_THREAD_SAFETY_ANALYSIS;
  // `completion` may be null, and so may those of a group.
  Status Start(engine::Engine* engine, const hvdlite_operation& operation,
               const hvdlite_completion* completion, bool will_wait, bool offered,
               engine::HandlePtr* handle);
  Status StartGroup(const hvdlite_operation* operations, int count, const char* group,
                    const hvdlite_completion* completions, std::vector<engine::HandlePtr>* handles);
  // Starts it, and waits for `slice`. No handle: it is no list.
  Status StartList(const hvdlite_list& list, Nanos slice, engine::HandlePtr* handle, bool* done);
  int64_t Add(engine::HandlePtr handle);

  Mutex life_mutex_;  // init and shutdown, one at a time
  Mutex mutex_;
  std::shared_ptr<engine::Engine> engine_ GUARDED_BY(mutex_);
  std::unordered_map<int64_t, engine::HandlePtr> handles_ GUARDED_BY(mutex_);
  int64_t next_handle_ GUARDED_BY(mutex_) = 0;
  // Set in a forked child. The child lacks the parent's threads and locks, so nothing above may be
  // touched.
  std::atomic<bool> forked_{false};
  std::atomic<uint32_t> forks_begun_{0}, forks_ended_{0};  // of this process
  std::atomic<uint32_t> report_requests_{0};
  std::atomic<int> joining_{-1};  // the socket that stands for this rank while it joins
};

}  // namespace hvdlite::api
