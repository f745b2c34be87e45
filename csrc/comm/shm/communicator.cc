#include "comm/shm/communicator.h"

#include "comm/shm/adasum.h"
#include "comm/shm/allreduce.h"
#include "comm/shm/move.h"
#include "comm/shm/pipeline.h"

namespace hvdlite::comm::shm {

void Communicator::Tune(const Tunables& tunables) {
  const auto times = [](size_t bytes, double factor) {
    return static_cast<size_t>(static_cast<double>(bytes) * factor);
  };
  exchange_bytes_ = times(ExchangeBytes(), tunables.small);
  region_->CutInto(times(region_->slot_bytes(), tunables.chunk));
}

std::string Communicator::Explain(const Batch& batch) const {
  if (probing_.May(batch))
    return "shm in place: tensors in shared memory are reduced where they lie, others by copies";
  if (batch.kind == OpKind::kAllreduce && batch.adasum)
    return "shm adasum: pairwise tree over shared slots";
  if (batch.kind == OpKind::kAllreduce) {
    return FitsExchange(batch) ? "shm exchange: at most " + std::to_string(exchange_bytes_) +
                                     " bytes, one hand-over"
                               : "shm shares: copy in, reduce own share, copy out, in chunks of " +
                                     std::to_string(region_->chunk_bytes()) + " bytes";
  }
  return "shm " + std::string(Name(batch.kind)) + ": streamed through shared slots";
}

Carrier Communicator::Choose(const Batch& batch) const {
  if (batch.kind != OpKind::kAllreduce) return Carrier::kShmStream;
  if (batch.adasum) return Carrier::kShmAdasum;
  return FitsExchange(batch) ? Carrier::kShmExchange : Carrier::kShmShares;
}

std::unique_ptr<Work> Communicator::Start(const Batch& batch) {
  if (!probing_.Asks(batch)) return StartAs(Choose(batch), batch);
  return StartInPlace(
      region_, probing_.tensors(), batch,
      [this](const Batch& rest) { return StartAs(Choose(rest), rest); },
      [this, &batch](bool any) {
        probing_.Learn(batch, any);
        if (any) Count(Carrier::kShmInPlace, OpKind::kAllreduce);
      });
}

std::unique_ptr<Work> Communicator::StartAs(Carrier carrier, const Batch& batch) {
  Count(carrier, batch.kind);
  switch (batch.kind) {
    case OpKind::kAllreduce:
      if (carrier == Carrier::kShmAdasum) return StartAdasum(region_, batch);
      return carrier == Carrier::kShmExchange ? StartExchange(region_, batch)
                                              : StartShares(region_, batch);
    case OpKind::kBroadcast: return StartBroadcast(region_, batch);
    case OpKind::kAllgather: return StartAllgather(region_, batch);
    case OpKind::kAlltoall: return StartAlltoall(region_, batch);
    case OpKind::kReducescatter: return StartReducescatter(region_, batch);
    default: return StartBarrier(region_);
  }
}

}  // namespace hvdlite::comm::shm
