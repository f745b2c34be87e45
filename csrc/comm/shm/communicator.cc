#include "comm/shm/communicator.h"

#include "comm/shm/adasum.h"
#include "comm/shm/allreduce.h"
#include "comm/shm/move.h"
#include "comm/shm/pipeline.h"

namespace hvdlite::comm::shm {

size_t Communicator::BytesOf(const Batch& batch) {
  size_t bytes = 0;
  for (const Piece& piece : batch.pieces) {
    bytes += (static_cast<size_t>(piece.count) * SizeOf(batch.dtype) + kLine - 1) / kLine * kLine;
  }
  return bytes;
}

uint64_t Communicator::ShapeOf(const Batch& batch) {
  uint64_t shape = static_cast<uint64_t>(batch.dtype) + 1;
  for (const Piece& piece : batch.pieces)
    shape = shape * 1099511628211ull + static_cast<uint64_t>(piece.count);
  return shape;
}

bool Communicator::MayBeInPlace(const Batch& batch) const {
  return shared_.peers != nullptr && batch.kind == OpKind::kAllreduce && !batch.adasum &&
         BytesOf(batch) > small_bytes_ &&
         SharedTensors::Fits(batch.pieces.size(), region_->chunk_bytes());
}

void Communicator::Tune(const Tunables& tunables) {
  const auto times = [](size_t bytes, double factor) {
    return static_cast<size_t>(static_cast<double>(bytes) * factor);
  };
  exchange_bytes_ = times(ExchangeBytes(), tunables.small);
  region_->CutInto(times(region_->slot_bytes(), tunables.chunk));
}

std::string Communicator::Explain(const Batch& batch) const {
  if (MayBeInPlace(batch))
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
  if (!MayBeInPlace(batch)) return StartAs(Choose(batch), batch);
  const uint64_t shape = ShapeOf(batch);
  if (!interest_.Asks(shape)) return StartAs(Choose(batch), batch);
  return StartInPlace(
      region_, shared_, batch, [this](const Batch& rest) { return StartAs(Choose(rest), rest); },
      [this, shape](bool any) {
        interest_.Learn(shape, any);
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
