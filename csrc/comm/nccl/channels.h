// Channels: the NCCL communicators of one process set. One has all members. With a Grid there are
// two more: the members on this member's host, and the members at its place on every host.
//
// They are made one after another, in the same order on all members. Their work goes to one stream,
// so they never wait for one another in different orders.
//
// Thread-safety and failure: as Channel. A failure of one is a failure of all.
#pragma once

#include <memory>
#include <vector>

#include "comm/nccl/channel.h"

namespace hvdlite::comm::nccl {

enum class Among : uint8_t { kAll, kHost, kPlace };

// A communicator to be made, as this member joins it.
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
  // *ready: all members have connected to all communicators, and NCCL has completed its last
  // request. Also reports an error that has happened since, on the device or on the network.
  Status Poll(bool* ready);
  // Puts the calls on gpu()->stream(), as one group. They are on the stream only when Poll() says
  // so. Until then, put nothing on the stream that has to follow them.
  Status Run(Among among, const std::vector<Call>& calls);
  // Finalizes the communicators in the proper order and frees NCCL's resources. This takes until
  // the others do the same. Returns false if it was not possible, or not in time.
  bool ShutDown(const Until& until);
  // Aborts: the work on the stream ends, with an undefined result, so that the stream continues.
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
