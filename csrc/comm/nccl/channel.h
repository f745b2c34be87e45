// Channel: one NCCL communicator: members of one process set, each on its device.
//
// Nonblocking throughout: NCCL may go on in the background with whatever it is asked for, and
// Poll() tells when it has done that. So no peer that is late, or dead, holds up the thread that
// calls.
//
// Thread-safety: one thread at a time (the holder of the engine's turn). Lifetime: keeps its
// library and its Gpu. Failure: NCCL's words, kept: a channel that has failed, or was aborted, is
// of no more use, but its device is.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/until.h"
#include "comm/nccl/caller.h"
#include "comm/nccl/library.h"
#include "device/gpu.h"

namespace hvdlite::comm::nccl {

// One collective of NCCL's, or one message.
struct Call {
  enum class What : uint8_t {
    kAllReduce,
    kReduce,
    kBroadcast,
    kAllGather,
    kReduceScatter,
    kSend,
    kReceive
  };
  What what = What::kAllReduce;
  const void* from = nullptr;  // not of kReceive
  void* to = nullptr;          // not of kSend, and of kReduce at its root only
  size_t count = 0;            // elements; of AllGather and ReduceScatter each member's
  DataType type = kUint8;
  RedOp op = kSum;
  int peer = 0;  // the root, or the other end of a message
};

// What the first of a communicator's members makes and tells the others.
Status NewUniqueId(const Library& library, UniqueId* id);

// How long an abort may take. NCCL's own joins its threads, which look at the abort flag many times
// a second.
constexpr Nanos kAbortPatience = 2 * kSecond;
// The pause of a loop that polls NCCL.
constexpr auto kBetweenLooks = std::chrono::microseconds(200);

class Channel {
 public:
  // Returns at once. All members have come when Poll() says so; a member that never comes has to be
  // noticed by others.
  static Status Begin(std::shared_ptr<const Library> library, std::shared_ptr<device::Gpu> gpu,
                      const UniqueId& id, int me, int size, std::unique_ptr<Channel>* channel);
  // Aborts what has not taken leave.
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // *ready: NCCL has done what it was asked for last. Also where an error comes out that happened
  // since, on the device or on the network.
  Status Poll(bool* ready);
  // Puts the calls on the device's stream, as one group. They are there only when Poll() says so:
  // before, nothing that has to come after them may be put on the stream.
  Status Run(const std::vector<Call>& calls);

  // Takes leave of the others, in the proper order, and frees what NCCL holds, which takes as long
  // as they take to do the same. False: not possible, or not in time.
  bool BeginLeave();
  bool EndLeave(const Until& until);
  // What has been put on the stream ends, with whatever result, so that the stream goes on. Should
  // NCCL hang in that, the caller does not.
  void BeginAbort();
  void EndAbort(const Deadline& deadline);

 private:
  class Done;

  Channel(std::shared_ptr<const Library> library, std::shared_ptr<device::Gpu> gpu)
      : library_(std::move(library)),
        gpu_(std::move(gpu)),
        caller_(std::make_shared<Caller>(library_->version)) {}
  Status Keep(Status status);
  // Calls NCCL, under the device's context.
  Status Do(const std::function<Status()>& call);
  Status MakeAll(const std::vector<Call>& calls);
  Result Make(const Call& call) const;
  // Begins to give the communicator back, by ncclCommAbort or ncclCommDestroy. Both free memory of
  // the device, which waits for everything there, for other communicators' calls, too, and Destroy
  // waits for other processes of the host: not this thread.
  void GiveBack(Result (*how)(Comm));
  // Not longer than until the deadline.
  void AwaitGivenBack(const Deadline& deadline);

  const std::shared_ptr<const Library> library_;
  const std::shared_ptr<device::Gpu> gpu_;
  const std::shared_ptr<Caller> caller_;  // lives until the communicator has been given back
  Comm comm_ = nullptr;
  Status failure_;
  std::thread giving_back_;
  std::shared_ptr<Done> given_back_;
};

}  // namespace hvdlite::comm::nccl
