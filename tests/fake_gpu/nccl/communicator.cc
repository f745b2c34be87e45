#include "fake_gpu/nccl/communicator.h"

#include <chrono>
#include <utility>

#include "fake_gpu/fake_cuda.h"
#include "fake_gpu/nccl/command.h"

extern "C" {
// Not those that hvdlite calls: a test that lets one of them fail means hvdlite.
int cuCtxGetCurrent(void** context);
int cuCtxSetCurrent(void* context);
int cuMemAlloc_v2(unsigned long long* address, size_t bytes);
int cuMemFree_v2(unsigned long long address);
}

namespace fake_nccl {

namespace {

void Nap() {
  std::this_thread::sleep_for(std::chrono::microseconds(100));
}

}  // namespace

// On its way through a stream.
struct Communicator::Job {
  std::shared_ptr<Communicator> communicator;
  std::vector<Operation> group;
};

void* CurrentContext() {
  void* context = nullptr;
  return cuCtxGetCurrent(&context) == 0 ? context : nullptr;
}

std::string Communicator::error() {
  const std::lock_guard lock(mutex_);
  return error_;
}

Result Communicator::Fail(int result, const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (error_.empty()) {
    error_ = why;
    state_ = result;
  }
  return static_cast<Result>(result);
}

bool Communicator::Occupy() {
  int expected = ncclSuccess;
  return state_.compare_exchange_strong(expected, ncclInProgress);
}

void Communicator::Done() {
  int expected = ncclInProgress;
  state_.compare_exchange_strong(expected, ncclSuccess);
}

Result Communicator::InBackground(std::thread thread) {
  if (background_.joinable()) background_.join();
  background_ = std::move(thread);
  if (!blocking_) return ncclInProgress;
  background_.join();
  return state();
}

Result Communicator::Begin(std::string name) {
  if (Setting("memory") != 0) cuMemAlloc_v2(&memory_, 256);
  return InBackground(
      std::thread([self = shared_from_this(), name = std::move(name)] { self->Come(name); }));
}

void Communicator::Come(const std::string& name) {
  BeLate();
  if (const int result = Called("init", rank_); result != 0) {
    Fail(result, "the fake was told to fail");
    return;
  }
  std::string problem;
  rendezvous_ = Rendezvous::Open(name, &problem);
  if (rendezvous_ == nullptr) {
    Fail(ncclSystemError, problem);
    return;
  }
  if (!rendezvous_->Arrive(rank_, ranks_)) {
    Complain("rank " + std::to_string(rank_) + " of " + std::to_string(ranks_) +
             " comes twice, or others say another size");
    rendezvous_->Fail();
    Fail(ncclInvalidUsage,
         "rank " + std::to_string(rank_) + " comes twice, or others say another size");
    return;
  }
  while (!rendezvous_->AllHere() && !over()) Nap();
  rendezvous_->Close();
  BeLate();
  if (!over()) Done();
}

Result Communicator::Launch(void* stream, std::vector<Operation> group) {
  if (state() == ncclInProgress) {
    Complain("rank " + std::to_string(rank_) + " calls " + group[0].ToString() +
             " while the call before is in progress");
    return ncclInvalidUsage;
  }
  if (state() != ncclSuccess) return state();
  for (const Operation& operation : group) {
    const std::string problem = Problem(operation, rank_, ranks_);
    if (problem.empty()) continue;
    Complain("rank " + std::to_string(rank_) + ": " + operation.ToString() + ": " + problem);
    return ncclInvalidArgument;
  }
  if (blocking_ || static_cast<long>(Random(100)) >= Setting("background"))
    return Enqueue(stream, std::move(group));
  if (!Occupy()) return state();
  return InBackground(std::thread([self = shared_from_this(), stream, group = std::move(group),
                                   context = CurrentContext()]() mutable {
    BeLate();
    cuCtxSetCurrent(context);
    if (self->Enqueue(stream, std::move(group)) == ncclSuccess) self->Done();
    cuCtxSetCurrent(nullptr);
  }));
}

Result Communicator::Enqueue(void* stream, std::vector<Operation> group) {
  Job* const job = new Job{shared_from_this(), std::move(group)};
  ++queued_;
  const int result = fake_cuda_enqueue(
      stream,
      [](void* argument) {
        const std::unique_ptr<Job> mine(static_cast<Job*>(argument));
        mine->communicator->Run(mine->group);
      },
      [](void* argument) { delete static_cast<Job*>(argument); }, job);
  if (result != 0) {
    delete job;
    --queued_;
    return Fail(ncclUnhandledCudaError, "the driver answered " + std::to_string(result));
  }
  return ncclSuccess;
}

bool Communicator::GivenUp() {
  if (rendezvous_->failed()) Fail(ncclRemoteError, "another rank has failed");
  // Once: between two looks a call that was in progress may have ended well.
  const Result now = state();
  return over() || (now != ncclSuccess && now != ncclInProgress);
}

void Communicator::WaitForAbort() const {
  while (!over()) Nap();
}

void Communicator::Run(const std::vector<Operation>& group) {
  ++running_;
  BeLate();
  std::string problem;
  const Place place{rendezvous_.get(), rank_, ranks_, [this] { return GivenUp(); }};
  if (const int result = over() ? 0 : Called("operation", rank_); result != 0) {
    Fail(result, "the fake was told to fail");
    WaitForAbort();
  } else if (over() || GivenUp() || !Perform(place, group, &problem)) {
    if (!problem.empty()) {
      Complain(problem);
      rendezvous_->Fail();
      Fail(ncclInvalidUsage, problem);
    }
    WaitForAbort();
  }
  --running_;
  --queued_;
}

Result Communicator::Finalize() {
  if (state() != ncclSuccess) {
    Complain("rank " + std::to_string(rank_) +
             " finalizes a communicator that has failed or is not done with a call");
    return ncclInvalidUsage;
  }
  if (!Occupy()) return state();
  return InBackground(std::thread([self = shared_from_this()] { self->TakeLeave(); }));
}

void Communicator::TakeLeave() {
  while (queued_ > 0 && !over()) Nap();
  BeLate();
  rendezvous_->Leave();
  while (!rendezvous_->AllLeft() && !GivenUp()) Nap();
  finalized_ = true;
  if (!over()) Done();
}

void Communicator::Abort() {
  aborted_ = true;
  if (background_.joinable()) background_.join();
  while (running_ > 0) Nap();
  if (rendezvous_ != nullptr) rendezvous_->Close();
}

void Communicator::Free() {
  if (memory_ != 0) cuMemFree_v2(memory_);
}

void Communicator::Join() {
  if (background_.joinable()) background_.join();
}

}  // namespace fake_nccl
