#include "comm/nccl/caller.h"

#include <utility>

#include "base/clock.h"
#include "base/thread.h"

namespace hvdlite::comm::nccl {

namespace {

constexpr int kKeepsItWithTheCommunicator = 22700;

}  // namespace

Caller::Caller(int nccl_version) {
  if (nccl_version < kKeepsItWithTheCommunicator) thread_ = std::thread([this] { Work(); });
}

Caller::~Caller() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    over_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

Status Caller::Do(const std::function<Status()>& call) {
  if (!thread_.joinable()) return call();
  const MutexLock lock(mutex_);
  call_ = &call;
  changed_.NotifyAll();
  while (call_ != nullptr) changed_.WaitFor(mutex_, kSecond);
  return std::exchange(result_, Status::Ok());
}

void Caller::Work() {
  NameThisThread("hvdlite-nccl");
  const MutexLock lock(mutex_);
  while (!over_) {
    if (call_ == nullptr) {
      changed_.WaitFor(mutex_, kSecond);
      continue;
    }
    result_ = (*call_)();
    call_ = nullptr;
    changed_.NotifyAll();
  }
}

}  // namespace hvdlite::comm::nccl
