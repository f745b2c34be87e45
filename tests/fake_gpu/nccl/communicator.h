// Communicator: one rank's end of a communicator: its state, and what it puts on streams.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "fake_gpu/nccl/abi.h"
#include "fake_gpu/nccl/operation.h"
#include "fake_gpu/nccl/rendezvous.h"

namespace fake_nccl {

// The driver's context of the calling thread; null: there is none.
void* CurrentContext();

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  Communicator(int rank, int ranks, bool blocking)
      : rank_(rank), ranks_(ranks), blocking_(blocking) {}

  int rank() const { return rank_; }
  // What ncclCommGetAsyncError says.
  Result state() const { return static_cast<Result>(state_.load()); }
  std::string error();

  Result Begin(std::string name);
  Result Launch(void* stream, std::vector<Operation> group);
  Result Finalize();
  bool finalized() const { return finalized_; }
  // Joins what goes on in the background, and waits for an operation that runs: it sees that it is
  // over.
  void Abort();
  // After Finalize.
  void Join();
  // Frees what it has on the device.
  void Free();

 private:
  struct Job;

  bool over() const { return aborted_.load(); }
  Result InBackground(std::thread thread);
  void Come(const std::string& name);
  void TakeLeave();
  Result Enqueue(void* stream, std::vector<Operation> group);
  void Run(const std::vector<Operation>& group);
  // Asked by an operation that waits for others.
  bool GivenUp();
  Result Fail(int result, const std::string& why);
  // Between the two the state is ncclInProgress. False: it has failed meanwhile.
  bool Occupy();
  void Done();
  void WaitForAbort() const;

  const int rank_;
  const int ranks_;
  const bool blocking_;
  std::unique_ptr<Rendezvous> rendezvous_;
  std::atomic<int> state_{ncclInProgress};
  std::atomic<bool> aborted_{false};
  std::atomic<bool> finalized_{false};
  std::atomic<int> queued_{0};  // on a stream and not done
  std::atomic<int> running_{0};
  std::thread background_;
  unsigned long long memory_ = 0;
  std::mutex mutex_;
  std::string error_;
};

}  // namespace fake_nccl
