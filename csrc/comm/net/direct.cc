// Direct: contributions go straight to the owner of a block, which sums all of them at once, in
// member order.
//
//   member 0:  own block ◄── contributions of 1, 2, 3    phase 1 (reduce-scatter)
//              Reduce(x0, x1, x2, x3), rounded once
//              own block ──► 1, 2, 3                     phase 2 (allgather, for allreduce)
//
// Cost: 2 steps of n-1 messages; 2 M (n-1)/n bytes each way per member, as few as the ring's.
// One-shot: each member "owns" everything: 1 step, (n-1) M bytes; for the smallest tensors and for
// two members.
//
// One Reduce() per element makes this the algorithm for float16 and bfloat16 (summed in float32,
// rounded once), gives the same bits as the shared-memory communicator, and gives them for both
// variants.
//
// Contributions arrive in one circular slot per peer; the sum follows the slowest peer through the
// block, and the finished stretch is sent on while the next arrives. On each link: first the
// contribution, then the result.
//
//        taken by Reduce()   arrived       room
//   slot |xxxxxxxxxxxxxxxxx|:::::::::::|...........|   offset in the block modulo the slot's size
//
// In place (output = input) this is safe. A result from peer j for byte e arrives only after j has
// received this member's contribution for e, so a result overwrites only bytes that have been sent.
// One-shot has no such reply, so its sum follows the slowest send as well.
#include <algorithm>
#include <utility>
#include <vector>

#include "comm/layout.h"
#include "comm/net/algorithms.h"
#include "comm/net/net_work.h"
#include "comm/reduction.h"

namespace hvdlite::comm::net {

namespace {

// A slot should hold a few system calls' worth of bytes. With very many members this floor exceeds
// the scratch budget.
constexpr size_t kSlotFloor = 8 << 10;
// Two pieces: one is summed while the next arrives.
constexpr size_t kSlotPieces = 2;
// Summing fewer bytes than this at a time costs more in calls than it hides latency.
constexpr size_t kSumAtLeast = 16 << 10;

class Direct : public NetWork {
 public:
  // `begin`: the begin of each member's block, and the end of the last.
  Direct(Wire* wire, Reduction reduction, std::vector<size_t> begin, bool one_shot, bool gather)
      : NetWork(wire), reduction_(std::move(reduction)), one_shot_(one_shot) {
    const auto n = static_cast<size_t>(wire->size());
    const auto me = static_cast<size_t>(wire->me());
    const Cursor all{begin.front(), begin.back()};
    own_ = one_shot ? all : Cursor{begin[me], begin[me + 1]};
    own_begin_ = own_.at;
    peers_.resize(n);
    for (size_t i = 0; i < n; ++i) {
      const Cursor block = one_shot ? all : Cursor{begin[i], begin[i + 1]};
      if (i != me) peers_[i] = {block, own_, gather ? own_ : Cursor{}, gather ? block : Cursor{}};
    }
    contributions_.resize(n);
    if (n == 1) return;
    const size_t share = wire->scratch_bytes() / (n - 1) / 64 * 64;
    slot_ = std::max(kSlotFloor, std::min(share, kSlotPieces * wire->piece_bytes()));
    slots_ = wire->Scratch(slot_ * (n - 1));
  }

 protected:
  Status Turn(bool* done) override {
    // Begins with another peer in each turn, so that none is always served last.
    const int others = wire_.size() - 1;
    if (++first_ >= others) first_ = 0;
    for (int i = 0; i < others && !wire_.enough(); ++i) HVDLITE_RETURN_IF_ERROR(SendTo(Member(i)));
    const size_t sent = wire_.spent();
    for (int i = 0; i < others && wire_.spent() - sent < wire_.piece_bytes(); ++i) {
      HVDLITE_RETURN_IF_ERROR(ReceiveFrom(Member(i)));
    }
    SumSome();
    *done =
        own_.done() && std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
          return peer.give.done() && peer.take.done() && peer.spread.done() && peer.gather.done();
        });
    return Status::Ok();
  }

 private:
  struct Peer {
    Cursor give;    // my contribution to the peer's block
    Cursor take;    // the peer's contribution to mine
    Cursor spread;  // my finished block, on its way to the peer
    Cursor gather;  // the peer's finished block, on its way to me
  };

  // The i-th peer of this turn. Counting starts at this member, so that not all members serve the
  // same peer first.
  int Member(int i) const {
    return (wire_.me() + 1 + (first_ + i) % (wire_.size() - 1)) % wire_.size();
  }

  Status SendTo(int member) {
    Peer& peer = peers_[static_cast<size_t>(member)];
    if (!peer.give.done()) HVDLITE_RETURN_IF_ERROR(wire_.Send(member, reduction_.in(), &peer.give));
    return peer.give.done() ? wire_.Send(member, reduction_.out(), &peer.spread, own_.at)
                            : Status::Ok();
  }

  Status ReceiveFrom(int member) {
    Peer& peer = peers_[static_cast<size_t>(member)];
    if (!peer.take.done()) HVDLITE_RETURN_IF_ERROR(Take(member, &peer.take));
    return peer.take.done() ? wire_.Receive(member, reduction_.out(), &peer.gather) : Status::Ok();
  }

  char* Slot(int member) const {
    return slots_ + slot_ * static_cast<size_t>(member < wire_.me() ? member : member - 1);
  }
  size_t InSlot(size_t at) const { return (at - own_begin_) % slot_; }

  Status Take(int member, Cursor* take) {
    const size_t room = slot_ - (take->at - own_.at);
    const size_t place = InSlot(take->at);
    const size_t bytes = std::min({room, slot_ - place, take->end - take->at});
    if (bytes == 0) return Status::Ok();
    size_t moved = 0;
    HVDLITE_RETURN_IF_ERROR(wire_.ReceiveInto(member, Slot(member) + place, bytes, &moved));
    take->at += moved;
    return Status::Ok();
  }

  // Sums what all peers have contributed so far, if that is worth a call.
  void SumSome() {
    if (own_.done()) return;
    size_t limit = std::min(own_.end, own_.at + wire_.piece_bytes());
    for (int i = 0; i + 1 < wire_.size(); ++i) {
      const Peer& peer = peers_[static_cast<size_t>(Member(i))];
      limit = std::min(limit, peer.take.at);
      if (one_shot_) limit = std::min(limit, peer.give.at);
    }
    const size_t place = slot_ == 0 ? 0 : InSlot(own_.at);
    const bool wraps = slot_ > 0 && limit - own_.at >= slot_ - place;
    if (wraps) limit = own_.at + slot_ - place;
    const size_t bytes = (limit - own_.at) / reduction_.element() * reduction_.element();
    const size_t worth = std::min({kSumAtLeast, slot_ / 2, wire_.piece_bytes()});
    if (bytes == 0 || (bytes < worth && !wraps && own_.at + bytes < own_.end)) return;
    for (int i = 0; i + 1 < wire_.size(); ++i) {
      contributions_[static_cast<size_t>(Member(i))] = Slot(Member(i)) + place;
    }
    reduction_.Reduce(wire_.me(), contributions_, own_.at, own_.at + bytes);
    own_.at += bytes;
    wire_.Spend(bytes);
  }

  const Reduction reduction_;
  const bool one_shot_;
  Cursor own_;  // my block; `at`: how far it is summed
  size_t own_begin_ = 0;
  std::vector<Peer> peers_;                 // by member; my own entry is unused
  std::vector<const char*> contributions_;  // of one Reduce()
  char* slots_ = nullptr;                   // scratch: one slot per peer
  size_t slot_ = 0;                         // bytes of each
  int first_ = -1;
};

}  // namespace

std::unique_ptr<Work> OneShotAllreduce(Wire* wire, const Batch& batch) {
  return std::make_unique<Direct>(wire, Reduction(batch), EvenBlocks(batch, wire->size()),
                                  /*one_shot=*/true,
                                  /*gather=*/false);
}

std::unique_ptr<Work> DirectAllreduce(Wire* wire, const Batch& batch) {
  return std::make_unique<Direct>(wire, Reduction(batch), EvenBlocks(batch, wire->size()),
                                  /*one_shot=*/false,
                                  /*gather=*/true);
}

std::unique_ptr<Work> DirectReducescatter(Wire* wire, const Batch& batch) {
  Layout in = AllBlocks(batch, wire->size(), /*outputs=*/false);
  Layout out = OwnBlock(batch, wire->size(), wire->me(), /*outputs=*/true);
  return std::make_unique<Direct>(wire, Reduction(batch, std::move(in.flat), std::move(out.flat)),
                                  std::move(in.begin),
                                  /*one_shot=*/false, /*gather=*/false);
}

}  // namespace hvdlite::comm::net
