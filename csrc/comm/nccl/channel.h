// Channel: one NCCL communicator: members of one process set, each on its device.
//
// It is nonblocking throughout: NCCL may continue in the background, and Poll() tells when it is
// done. So a peer that is late or dead does not hold up the calling thread.
//
// Thread-safety: one thread at a time (the holder of the engine's turn). Lifetime: keeps its
// library and its Gpu. Failure: NCCL's own description, kept. A channel that has failed or was
// aborted cannot be used again, but its device can.
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

// One collective of NCCL, or one message.
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
  const void* from = nullptr;  // unused by kReceive
  void* to = nullptr;          // unused by kSend; used by kReduce at its root only
  size_t count = 0;            // elements; each member's for AllGather and ReduceScatter
  DataType type = kUint8;
  RedOp op = kSum;
  int peer = 0;  // the root, or the other end of a message
};

// The first of a communicator's members makes the id and sends it to the others.
Status NewUniqueId(const Library& library, UniqueId* id);

// How long an abort may take. ncclCommAbort joins NCCL's threads, which check the abort flag many
// times a second.
constexpr Nanos kAbortPatience = 2 * kSecond;
// The pause of a loop that polls NCCL.
constexpr auto kBetweenLooks = std::chrono::microseconds(200);

class Channel {
 public:
  // Returns at once. All members have connected when Poll() says so. NCCL does not notice a member
  // that never connects; the caller must.
  static Status Begin(std::shared_ptr<const Library> library, std::shared_ptr<device::Gpu> gpu,
                      const UniqueId& id, int me, int size, std::unique_ptr<Channel>* channel);
  // Aborts the communicator unless it has been finalized.
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // *ready: NCCL has completed its last request. Also reports an error that has happened since, on
  // the device or on the network.
  Status Poll(bool* ready);
  // Puts the calls on the device's stream, as one group. They are on the stream only when Poll()
  // says so. Until then, put nothing on the stream that has to follow them.
  Status Run(const std::vector<Call>& calls);

  // Finalizes the communicator together with the others, in the proper order, and frees NCCL's
  // resources. This takes until the others do the same. Returns false if it was not possible, or
  // not in time.
  bool BeginLeave();
  bool EndLeave(const Until& until);
  // Aborts: the work on the stream ends, with an undefined result, so that the stream continues. If
  // NCCL hangs meanwhile, the caller does not.
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
  // Starts ncclCommAbort or ncclCommDestroy in a helper thread. Both free device memory, which
  // waits for all work on the device, including other communicators' calls. Destroy also waits for
  // other processes of the host. This thread does not wait.
  void GiveBack(Result (*how)(Comm));
  // Waits until the deadline at most.
  void AwaitGivenBack(const Deadline& deadline);

  const std::shared_ptr<const Library> library_;
  const std::shared_ptr<device::Gpu> gpu_;
  const std::shared_ptr<Caller> caller_;  // lives until the communicator has been freed
  Comm comm_ = nullptr;
  Status failure_;
  std::thread giving_back_;
  std::shared_ptr<Done> given_back_;
};

}  // namespace hvdlite::comm::nccl
