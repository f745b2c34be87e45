#include "comm/mpi/communicator.h"

#include <algorithm>
#include <utility>

#include "comm/works.h"

namespace hvdlite::comm::mpi {

namespace {

// The contributions of all other members wait in memory, so with very many members chunks get
// smaller.
constexpr size_t kScratchBytes = 32 << 20;

size_t ChunkFor(size_t wanted, int members) {
  const size_t most = std::max<size_t>(kScratchBytes / static_cast<size_t>(members), 4096);
  return std::max<size_t>(std::min(wanted, most) / 64 * 64, 64);
}

}  // namespace

Communicator::Communicator(std::unique_ptr<Channel> channel,
                           std::unique_ptr<comm::Communicator> over_pipes, Options options)
    : options_(std::move(options)),
      channel_(std::move(channel)),
      over_pipes_(std::move(over_pipes)) {
  for (auto& slot : slots_) slot = std::make_unique<Slot>(channel_.get());
}

Question Communicator::Ask(const Batch& batch) const {
  Question question = QuestionOf(batch, channel_->size());
  question.members_per_card = options_.members_per_card;
  return question;
}

std::string Communicator::Explain(const Batch& batch) const {
  if (batch.kind != OpKind::kAllreduce) return "mpi";
  if (batch.adasum) return "mpi: " + over_pipes_->Explain(batch);
  return "mpi: " + ExplainImpl(Ask(batch), batch.reduce.op, options_.allreduce);
}

std::unique_ptr<Work> Communicator::Counted(Carrier carrier, const Batch& batch,
                                            std::unique_ptr<Work> work) {
  Count(carrier, batch.kind);
  return work;
}

std::unique_ptr<Work> Communicator::Start(const Batch& batch) {
  if (channel_->library().finalized()) {
    return std::make_unique<FailedWork>(
        Status::Io("the program has called MPI_Finalize while hvdlite was using MPI: call "
                   "hvd.shutdown() before"));
  }
  if (channel_->broken()) {
    return std::make_unique<FailedWork>(
        Status::Internal("an earlier operation over MPI was abandoned"));
  }
  const Context context{channel_.get(), &slots_, ChunkFor(options_.chunk_bytes, channel_->size())};
  switch (batch.kind) {
    case OpKind::kAllreduce:
      if (batch.adasum) return Counted(Carrier::kMpiPipes, batch, over_pipes_->Start(batch));
      switch (ChooseImpl(Ask(batch), batch.reduce.op, options_.allreduce)) {
        case AllreduceImpl::kOneShot:
          return Counted(Carrier::kMpiOneShot, batch, OneShotAllreduce(context, batch));
        case AllreduceImpl::kDirect:
          return Counted(Carrier::kMpiDirect, batch, DirectAllreduce(context, batch));
        case AllreduceImpl::kGather:
          return Counted(Carrier::kMpiGather, batch, over_pipes_->Start(batch));
        case AllreduceImpl::kLibrary:
          return Counted(Carrier::kMpiLibrary, batch, LibraryAllreduce(context, batch));
      }
      break;
    case OpKind::kReducescatter:
      return Counted(Carrier::kMpiDirect, batch, DirectReducescatter(context, batch));
    case OpKind::kAllgather:
      return Counted(Carrier::kMpiPairwise, batch, PairwiseAllgather(context, batch));
    case OpKind::kAlltoall:
      return Counted(Carrier::kMpiPairwise, batch, PairwiseAlltoall(context, batch));
    case OpKind::kBroadcast:
      return Counted(Carrier::kMpiLibrary, batch, LibraryBroadcast(context, batch));
    case OpKind::kBarrier: return Counted(Carrier::kMpiLibrary, batch, LibraryBarrier(context));
    default: break;
  }
  return Counted(Carrier::kMpiPipes, batch, over_pipes_->Start(batch));
}

}  // namespace hvdlite::comm::mpi
