// Caller: makes the calls of one communicator, in a thread that suits NCCL.
//
// Before 2.27 NCCL keeps the state of background work (ncclInProgress) with the thread that has
// asked for it. That thread must not end meanwhile, nor call NCCL on another communicator. The
// holder of the engine's turn does both. So with such an NCCL each communicator has a thread of its
// own, which lives as long as the communicator. Later versions are called in the calling thread.
//
// Thread-safety: one thread at a time.
#pragma once

#include <functional>
#include <thread>

#include "base/mutex.h"
#include "base/status.h"

namespace hvdlite::comm::nccl {

class Caller {
 public:
  explicit Caller(int nccl_version);
  ~Caller();
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  // Returns what `call` returns. `call` must not wait for other ranks.
  Status Do(const std::function<Status()>& call) EXCLUDES(mutex_);

 private:
  void Work() EXCLUDES(mutex_);

  Mutex mutex_;
  CondVar changed_;
  const std::function<Status()>* call_ GUARDED_BY(mutex_) = nullptr;  // until it is done
  Status result_ GUARDED_BY(mutex_);
  bool over_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace hvdlite::comm::nccl
