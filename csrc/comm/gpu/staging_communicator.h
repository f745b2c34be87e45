// StagingCommunicator: collectives on tensors on GPUs through host memory. The device copies the
// tensors out on its stream, the host communicator does the collective, and the device copies the
// result back.
//
//   stream   out 0   out 1            in 0   out 2           in 1   ...
//   host                     round 0                round 1
//
// It works in rounds (cut.h), with memory for two, so that copies and collective overlap and memory
// stays bounded. It needs no kernel and supports every operation that the host communicator knows;
// results are its results, bit by bit.
//
// A member that has no GPU (it has called join() before it used one) takes part with host memory.
// As everywhere on a GPU, done means enqueued on the stream. Staging memory is used in the stream's
// order, so the next batch may begin at once. Work that is done keeps its memory until it is
// destroyed, so destroy it only after finished() has fired. Thread-safety: as every communicator.
// Borrows the host communicator.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/gpu/cut.h"

namespace hvdlite::comm::gpu {

// Staging memory for one round: pinned if there is a GPU.
struct Stage {
  Status Reserve(device::Gpu* gpu, size_t bytes);

  size_t bytes = 0;
  char* input = nullptr;
  char* output = nullptr;  // the same as `input` if the host works in place

 private:
  std::unique_ptr<device::Gpu::Buffer> pinned_;
  std::vector<char> plain_;
};

class StagingCommunicator final : public comm::Communicator {
 public:
  // `gpu` is null for a member without one. `room`: bytes of a round.
  StagingCommunicator(comm::Communicator* host, std::shared_ptr<device::Gpu> gpu, int me,
                      int members, size_t room)
      : host_(host), gpu_(std::move(gpu)), me_(me), members_(members), room_(room) {}

  const char* name() const override { return "stage"; }
  std::string Explain(const Batch& batch) const override;
  // The stream must already wait for everything in `batch.ready`, and Reserve must have been
  // called.
  std::unique_ptr<Work> Start(const Batch& batch) override;
  void AddPollFds(std::vector<pollfd>* fds) const override { host_->AddPollFds(fds); }
  bool slow() const override { return host_->slow(); }
  // The device's copies ring no bell.
  bool must_be_asked() const override { return true; }

  // Whether this batch needs more staging memory than any before it. All members answer alike, and
  // must then agree that all of them have the memory.
  bool Grows(const Batch& batch) const;
  Status Reserve(const Batch& batch);
  // All members have the memory for `batch`.
  void Agreed(const Batch& batch);

 private:
  class StagedWork;
  size_t Needed(const Batch& batch) const;

  comm::Communicator* const host_;
  const std::shared_ptr<device::Gpu> gpu_;
  const int me_;
  const int members_;
  const size_t room_;
  size_t agreed_ = 0;  // bytes that all members have for a round
  std::array<std::shared_ptr<Stage>, 2> stages_;
};

}  // namespace hvdlite::comm::gpu
