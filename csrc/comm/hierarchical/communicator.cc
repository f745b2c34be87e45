#include "comm/hierarchical/communicator.h"

#include <numeric>
#include <optional>

#include "comm/compressed/encoded_allreduce.h"
#include "comm/compressed/split.h"
#include "comm/flat.h"
#include "comm/hierarchical/in_place.h"
#include "comm/shm/move.h"
#include "comm/works.h"
#include "kernels/codec.h"

namespace hvdlite::comm::hierarchical {

namespace {

bool IsHalf(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

// Up to this many 16-bit floats, one exchange in float32 costs less than two with fewer bytes.
constexpr int64_t kExchangeMaxElements = 16 << 10;

int64_t PartOf(int64_t count, int parts, int i) {
  const auto units = static_cast<size_t>(count);
  return static_cast<int64_t>(PartBegin(units, parts, i + 1) - PartBegin(units, parts, i));
}

// Of the elements from `begin` on.
Coding PartOf(const Coding& coding, int64_t begin) {
  Coding part = coding;
  if (part.residual != nullptr) part.residual += begin;
  part.draw = kernels::MixKey(part.draw, static_cast<uint64_t>(begin));
  return part;
}

Batch Like(const Batch& batch, OpKind kind) {
  Batch other;
  other.kind = kind;
  other.dtype = batch.dtype;
  other.reduce = batch.reduce;
  return other;
}

// Asks the members of the host where their tensors lie.
class Asking final : public Work {
 public:
  explicit Asking(shm::PeerAddresses* addresses) : addresses_(*addresses) {}
  Progress Advance() override {
    const Progress progress = addresses_.Ask();
    return progress == Progress::kFailed ? Fail(addresses_.status()) : progress;
  }

 private:
  shm::PeerAddresses& addresses_;
};

}  // namespace

class Communicator::Allreduce final : public Sequence {
 public:
  Allreduce(Communicator* owner, const Batch& batch) : owner_(*owner), half_(IsHalf(batch.dtype)) {
    if (batch.codec.encodes() || !owner_.probing_.Asks(batch)) {
      Plan(batch);
      return;
    }
    addresses_.emplace(owner_.region_, owner_.probing_.tensors(), batch);
    Then([this] { return std::make_unique<Asking>(&*addresses_); });
    Then([this, &batch] {
      owner_.probing_.Learn(batch, addresses_->any());
      if (addresses_->any()) owner_.Count(Carrier::kShmInPlace, batch.kind);
      Plan(batch);
      return nullptr;
    });
  }

 private:
  void Plan(const Batch& batch) {
    const int mates = owner_.region_->members();
    const auto local = static_cast<size_t>(owner_.region_->me());
    const size_t size = SizeOf(batch.dtype);

    // The sum inside the host is not final: the divisor and the last factor apply to the whole sum.
    scatter_ = Like(batch, OpKind::kReducescatter);
    scatter_.reduce.divisor = 1.0;
    scatter_.reduce.postscale = 1.0;
    between_ = Like(batch, OpKind::kAllreduce);
    between_.reduce.prescale = 1.0;
    gather_ = Like(batch, OpKind::kAllgather);
    std::vector<std::vector<int64_t>> counts;  // of each piece, of each member
    for (const Piece& piece : batch.pieces) {
      counts.emplace_back();
      for (int m = 0; m < mates; ++m)
        counts.back().push_back(m < owner_.rails_ ? PartOf(piece.count, owner_.rails_, m) : 0);
      mine_ += counts.back()[local];
    }
    my_share_ = GrowTo(mine_ * static_cast<int64_t>(size), &owner_.share_);
    const int64_t finishes = half_ ? PartOf(mine_, owner_.hosts(), owner_.host()) : 0;
    if (half_) GrowTo(mine_ + finishes, &owner_.sums_);
    int64_t at = 0;
    for (size_t i = 0; i < batch.pieces.size(); ++i) {
      const Piece& piece = batch.pieces[i];
      const bool is_shared = addresses_ && addresses_->Shares(i);
      const auto begin =
          std::accumulate(counts[i].begin(), counts[i].begin() + owner_.region_->me(), int64_t{0});
      // What is one piece between the hosts may stay where it is.
      if (is_shared && batch.pieces.size() == 1 && !half_)
        my_share_ = static_cast<char*>(piece.output) + static_cast<size_t>(begin) * size;
      void* const share = my_share_ + static_cast<size_t>(at) * size;
      void* const sum = half_ ? static_cast<void*>(owner_.sums_.data() + at) : share;
      if (is_shared) {
        in_place_.parts.push_back({i, begin, counts[i][local], sum, share});
      } else {
        scatter_.pieces.push_back({piece.input, sum, 0, counts[i]});
        gather_.pieces.push_back({share, piece.output, 0, counts[i]});
      }
      if (batch.codec.encodes())
        between_.pieces.push_back(
            {share, share, counts[i][local], {}, PartOf(piece.coding, begin)});
      at += counts[i][local];
    }

    if (addresses_ && addresses_->any()) {
      in_place_.addresses = &*addresses_;
      in_place_.reduce = scatter_.reduce;
      in_place_.to_float = half_;
      Then([this] { return StartReduce(in_place_); });
    }
    if (!scatter_.pieces.empty()) {
      Then([this] {
        return half_ ? StartReducescatterToFloat(owner_.region_, scatter_)
                     : StartReducescatter(owner_.region_, scatter_);
      });
    }
    if (owner_.rail_ != nullptr) BetweenHosts(batch, finishes);
    if (!gather_.pieces.empty()) {
      Then([this] { return StartAllgather(owner_.region_, gather_); });
    }
    if (in_place_.addresses != nullptr) {
      Then([this] { return StartSpread(in_place_); });
    }
  }

  void BetweenHosts(const Batch& batch, int64_t finishes) {
    if (batch.codec.encodes()) {
      between_.codec = batch.codec;
      Then([this] {
        return compressed::StartEncoded(owner_.rail_, between_, owner_.host(), owner_.hosts());
      });
      return;
    }
    if (!half_) {
      between_.pieces.push_back({my_share_, my_share_, mine_, {}});
      Then([this] { return owner_.rail_->Start(between_); });
      return;
    }
    float* const sums = owner_.sums_.data();
    char* const share = owner_.share_.data();
    between_.dtype = between_.reduce.dtype = DType::kFloat32;
    if (mine_ <= kExchangeMaxElements) {
      between_.pieces.push_back({sums, sums, mine_, {}});
      Then([this] { return owner_.rail_->Start(between_); });
      Then([this, sums, share] { return Round(sums, share, mine_); });
      return;
    }
    // A sum travels in float32 to the member that finishes it, and rounded from there.
    between_.kind = OpKind::kReducescatter;
    spread_ = Like(batch, OpKind::kAllgather);
    Piece part;
    for (int h = 0; h < owner_.hosts(); ++h)
      part.counts.push_back(PartOf(mine_, owner_.hosts(), h));
    spread_.pieces.push_back(part);
    between_.pieces.push_back(std::move(part));
    float* const finished = sums + mine_;
    char* const own = share + PartBegin(static_cast<size_t>(mine_), owner_.hosts(), owner_.host()) *
                                  SizeOf(batch.dtype);
    between_.pieces[0].input = sums;
    between_.pieces[0].output = finished;
    spread_.pieces[0].input = own;
    spread_.pieces[0].output = share;
    Then([this] { return owner_.rail_->Start(between_); });
    Then([this, finished, own, finishes] { return Round(finished, own, finishes); });
    Then([this] { return owner_.rail_->Start(spread_); });
  }

  std::unique_ptr<Work> Round(const float* sums, char* rounded, int64_t count) const {
    kernels::RoundFromFloat(gather_.dtype, rounded, sums, count);
    return nullptr;
  }

  Communicator& owner_;
  const bool half_;
  std::optional<shm::PeerAddresses> addresses_;  // of tensors that all members of the host share
  InPlace in_place_;
  int64_t mine_ = 0;                           // elements of this member's share
  char* my_share_ = nullptr;                   // all of it
  Batch scatter_, between_, spread_, gather_;  // the first and the last without shared tensors
};

class Communicator::Broadcast final : public Sequence {
 public:
  Broadcast(Communicator* owner, const Batch& batch) : between_(batch), inside_(batch) {
    const size_t root = static_cast<size_t>(batch.root);
    const int root_local = owner->topology_.local_of[root];
    between_.root = owner->topology_.host_of[root];
    inside_.root = root_local;
    if (owner->region_->me() == root_local) {
      // The members of this host get what came from the other host. The root sends its input.
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

// A root without a rail would first have to send to another member of its host.
bool Communicator::Carries(const Batch& batch) const {
  if (batch.kind == OpKind::kAllreduce) return !batch.adasum;
  return batch.kind == OpKind::kBroadcast &&
         topology_.local_of[static_cast<size_t>(batch.root)] < rails_;
}

std::string Communicator::Explain(const Batch& batch) const {
  if (!Carries(batch)) return "flat, " + flat_->Explain(batch);
  if (batch.kind == OpKind::kBroadcast) {
    return "hierarchical: between hosts along the root's local rank, then in memory";
  }
  return "hierarchical: reduce-scatter in each host's memory, " + std::to_string(rails_) +
         (rails_ == 1 ? " allreduce between " : " parallel allreduces between ") +
         std::to_string(hosts()) + " hosts, allgather in memory";
}

std::unique_ptr<Work> Communicator::Start(const Batch& batch) {
  if (!Carries(batch)) return flat_->Start(batch);
  Count(Carrier::kHierarchical, batch.kind);
  if (batch.kind == OpKind::kAllreduce) return std::make_unique<Allreduce>(this, batch);
  return std::make_unique<Broadcast>(this, batch);
}

namespace {

// An allreduce of the whole tensors of an encoded batch, and then one of the others.
class WholeFirst final : public Sequence {
 public:
  WholeFirst(Communicator* over, const Batch& batch, int me, int members)
      : whole_(compressed::OnlyWhole(batch)), others_(compressed::WithoutWhole(batch)) {
    Then([this, over] { return over->Start(whole_); });
    if (others_.pieces.empty()) return;
    Then([=, this] { return over->StartEncoded(others_, me, members); });
  }

 private:
  const Batch whole_, others_;
};

}  // namespace

std::unique_ptr<Exchanges> Communicator::StartExchanges() {
  return flat_->StartExchanges();
}

std::unique_ptr<Work> Communicator::StartEncoded(const Batch& batch, int me, int members) {
  if (compressed::HasWhole(batch)) return std::make_unique<WholeFirst>(this, batch, me, members);
  Count(Carrier::kHierarchical, batch.kind);
  return std::make_unique<Allreduce>(this, batch);
}

void Communicator::Tune(const Tunables& tunables) {
  region_->CutInto(
      static_cast<size_t>(static_cast<double>(region_->slot_bytes()) * tunables.chunk));
  if (rail_ != nullptr) rail_->Tune(tunables);
  flat_->Tune(tunables);
}

void Communicator::AddPollFds(std::vector<pollfd>* fds) const {
  if (rail_ != nullptr) rail_->AddPollFds(fds);
  flat_->AddPollFds(fds);
}

}  // namespace hvdlite::comm::hierarchical
