// Encoding: an allreduce with a codec (comm/compressed/encoded_allreduce.h) of tensors on GPUs, in
// one of two places, which all members choose alike.
//
// On the device: its kernels encode, sum and decode; encoded bytes travel as the alltoall and the
// allgather of bytes on GPUs. Results and residuals have the bits that the processor gives, but for
// residuals of blocks that are not finite: here all are as they were, to the bit.
//
// On the host, where a member has no kernels or no GPU, and where the host's communicator reduces
// dense tensors inside each host: tensors and residuals are copied to pinned memory and back.
//
// As everywhere on a GPU, done means enqueued on the stream. Done work keeps its memory until it is
// destroyed, so destroy it only after finished() has fired. Borrows everything.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/communicator.h"

namespace hvdlite::comm::gpu {

class Encoding : public Work {
 public:
  // Takes the memory that the work needs, before it begins. A failure concerns this batch alone.
  virtual Status Reserve() = 0;
  // The batches of bytes on GPUs that the work will start.
  virtual std::vector<const Batch*> exchanges() const { return {}; }
};

// The stream must already wait for everything in `batch.ready` when the works begin.
//
// `start` starts an exchange of bytes. `carrier_counts` may be null.
using StartExchange = std::function<std::unique_ptr<Work>(const Batch&)>;
std::unique_ptr<Encoding> EncodeOnDevice(std::shared_ptr<device::Gpu> gpu,
                                         const StartExchange& start, CarrierCounts* carrier_counts,
                                         const Batch& batch, int me, int members);
// `gpu` is null for a member without one.
std::unique_ptr<Encoding> EncodeOnHost(std::shared_ptr<device::Gpu> gpu, comm::Communicator* host,
                                       const Batch& batch, int me, int members);

}  // namespace hvdlite::comm::gpu
