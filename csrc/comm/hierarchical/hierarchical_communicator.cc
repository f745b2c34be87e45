#include "comm/hierarchical/hierarchical_communicator.h"

#include "comm/sequence.h"
#include "comm/shm/move.h"

namespace hvdlite::comm {

class HierarchicalCommunicator::Allreduce final : public Sequence {
 public:
  Allreduce(HierarchicalCommunicator* owner, const Batch& batch) {
    const int mates = owner->region_->members();
    const int local = owner->region_->me();
    const size_t size = SizeOf(batch.dtype);
    const auto part = [mates](int64_t count, int64_t m) { return count / mates + (m < count % mates ? 1 : 0); };

    int64_t mine = 0;
    for (const Piece& piece : batch.pieces) mine += part(piece.count, local);
    const size_t bytes = static_cast<size_t>(mine) * size;
    if (owner->share_.size() < bytes) owner->share_.resize(bytes);

    // Inside the host nothing is finished yet: the divisor and the last factor belong to the whole sum.
    scatter_ = Like(batch, OpKind::kReducescatter);
    scatter_.reduce.divisor = 1.0;
    scatter_.reduce.postscale = 1.0;
    gather_ = Like(batch, OpKind::kAllgather);
    char* at = owner->share_.data();
    for (const Piece& piece : batch.pieces) {
      Piece scatter;
      for (int m = 0; m < mates; ++m) scatter.counts.push_back(part(piece.count, m));
      Piece gather;
      gather.counts = scatter.counts;
      scatter.input = piece.input;
      scatter.output = at;
      gather.input = at;
      gather.output = piece.output;
      at += static_cast<size_t>(scatter.counts[static_cast<size_t>(local)]) * size;
      scatter_.pieces.push_back(std::move(scatter));
      gather_.pieces.push_back(std::move(gather));
    }
    between_ = Like(batch, OpKind::kAllreduce);
    between_.reduce.prescale = 1.0;
    between_.pieces.push_back({owner->share_.data(), owner->share_.data(), mine, {}});

    Then([this, owner] { return StartReducescatter(owner->region_, scatter_); });
    Then([this, owner] { return owner->rail_->Start(between_); });
    Then([this, owner] { return StartAllgather(owner->region_, gather_); });
  }

 private:
  static Batch Like(const Batch& batch, OpKind kind) {
    Batch other;
    other.kind = kind;
    other.dtype = batch.dtype;
    other.reduce = batch.reduce;
    return other;
  }
  Batch scatter_, between_, gather_;
};

class HierarchicalCommunicator::Broadcast final : public Sequence {
 public:
  Broadcast(HierarchicalCommunicator* owner, const Batch& batch) : between_(batch), inside_(batch) {
    const size_t root = static_cast<size_t>(batch.root);
    const int root_local = owner->topology_.local_of[root];
    between_.root = owner->topology_.host_of[root];
    inside_.root = root_local;
    if (owner->region_->me() == root_local) {
      // What came from the other host is what this host is told. The root itself tells from its input.
      if (owner->me_ != batch.root) {
        for (Piece& piece : inside_.pieces) piece.input = piece.output;
      }
      Then([this, owner] { return owner->rail_->Start(between_); });
    }
    Then([this, owner] { return StartBroadcast(owner->region_, inside_); });
  }

 private:
  Batch between_, inside_;
};

std::string HierarchicalCommunicator::Explain(const Batch& batch) const {
  if (batch.kind == OpKind::kAllreduce && !batch.adasum) {
    return "hierarchical: reduce-scatter in each host's memory, " + std::to_string(region_->members()) +
           " parallel allreduces between " + std::to_string(topology_.hosts.size()) + " hosts, allgather in memory";
  }
  if (batch.kind == OpKind::kBroadcast)
    return "hierarchical: between hosts along the root's local rank, then in memory";
  return "flat, " + flat_->Explain(batch);
}

std::unique_ptr<Work> HierarchicalCommunicator::Start(const Batch& batch) {
  const bool reduces = batch.kind == OpKind::kAllreduce && !batch.adasum;
  if (!reduces && batch.kind != OpKind::kBroadcast) return flat_->Start(batch);
  Count(Carrier::kHierarchical, batch.kind);
  if (reduces) return std::make_unique<Allreduce>(this, batch);
  return std::make_unique<Broadcast>(this, batch);
}

void HierarchicalCommunicator::AddPollFds(std::vector<pollfd>* fds) const {
  rail_->AddPollFds(fds);
  flat_->AddPollFds(fds);
}

}  // namespace hvdlite::comm
