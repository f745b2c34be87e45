// Channels: NCCL's communicators of one process set: of all members, and, where it has a Grid, of
// those on this member's host and of those at its place on every host.
//
// They come about one after another, in the same order on all members. What is put on them goes to
// one stream, so that they never wait for one another in different orders.
//
// Thread-safety and failure: as Channel. A failure of one is a failure of all.
#pragma once

#include <memory>
#include <vector>

#include "comm/nccl/channel.h"

namespace hvdlite::comm::nccl {

enum class Among : uint8_t { kAll, kHost, kPlace };

// A communicator to be, as this member comes to it.
struct CommSpec {
  UniqueId id;
  int me = 0;
  int size = 1;
};

class Channels {
 public:
  // One spec, or three in the order of Among. Returns at once.
  static Status Begin(std::shared_ptr<const Library> library, std::shared_ptr<device::Gpu> gpu,
                      std::vector<CommSpec> specs, std::unique_ptr<Channels>* channels);
  // Shuts down unless that has happened. Waits some seconds for the others, then aborts.
  ~Channels();
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;

  const std::shared_ptr<device::Gpu>& gpu() const { return gpu_; }
  // *ready: all have come to all communicators, and NCCL has done what it was asked for last. Also
  // where an error comes out that happened since, on the device or on the network.
  Status Poll(bool* ready);
  // Puts the calls on gpu()->stream(), as one group. They are there only when Poll() says so:
  // before, nothing that has to come after them may be put on the stream.
  Status Run(Among among, const std::vector<Call>& calls);
  // Takes leave in the proper order and frees what NCCL holds. That takes as long as the others
  // take to do the same. False: not possible, or not in time.
  bool ShutDown(const Until& until);
  // What has been put on the stream ends, with whatever result, so that the stream goes on.
  void BeginAbort();
  void EndAbort(const Deadline& deadline);

 private:
  Channels(std::shared_ptr<const Library> library, std::shared_ptr<device::Gpu> gpu,
           std::vector<CommSpec> specs)
      : library_(std::move(library)), gpu_(std::move(gpu)), specs_(std::move(specs)) {}
  Status BeginNext();

  const std::shared_ptr<const Library> library_;
  const std::shared_ptr<device::Gpu> gpu_;
  const std::vector<CommSpec> specs_;
  std::vector<std::unique_ptr<Channel>> begun_;
};

}  // namespace hvdlite::comm::nccl
