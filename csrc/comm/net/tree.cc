// Tree: broadcast. Each member passes on what it has received so far, byte by byte (cut-through),
// so a large tensor flows through all levels at once.
//
//   binomial (small), by distance from the root:        chain (large):
//            0                                            0 ──► 1 ──► 2 ──► 3
//        ┌───┼─────┐
//        4   2     1         members 0..7; the child that heads
//       ┌┴┐  │               the largest subtree is served first
//       6 5  3
//       │
//       7
//
// Cost: binomial log n steps, but the root sends log n times M bytes; chain n-1 steps, and each
// member sends M once.
#include <algorithm>
#include <utility>
#include <vector>

#include "comm/layout.h"
#include "comm/net/algorithms.h"
#include "comm/net/net_work.h"

namespace hvdlite::comm::net {

namespace {

class Relay : public NetWork {
 public:
  // `parent` is -1 on the root, which sends `source` and, if `target` has memory, copies into it.
  Relay(Wire* wire, Flat source, Flat target, int parent, std::vector<int> children, bool copy)
      : NetWork(wire),
        source_(std::move(source)),
        target_(std::move(target)),
        parent_(parent),
        children_(std::move(children)),
        received_{parent < 0 ? source_.size() : 0, source_.size()},
        copied_{copy ? 0 : source_.size(), source_.size()},
        sent_(children_.size(), Cursor{0, source_.size()}) {}

 protected:
  Status Turn(bool* done) override {
    if (!received_.done()) HVDLITE_RETURN_IF_ERROR(wire_.Receive(parent_, target_, &received_));
    const Flat& data = parent_ < 0 ? source_ : target_;
    *done = received_.done();
    for (size_t i = 0; i < children_.size(); ++i) {
      HVDLITE_RETURN_IF_ERROR(wire_.Send(children_[i], data, &sent_[i], received_.at));
      *done = *done && sent_[i].done();
    }
    if (!copied_.done()) CopySome();
    *done = *done && copied_.done();
    return Status::Ok();
  }

 private:
  void CopySome() {
    const size_t bytes = std::min(copied_.end - copied_.at, wire_.piece_bytes());
    Copy(source_, copied_.at, target_, copied_.at, bytes);
    copied_.at += bytes;
    wire_.Spend(bytes);
  }

  const Flat source_;  // the root's input; elsewhere the same as target_
  const Flat target_;
  const int parent_;
  const std::vector<int> children_;
  Cursor received_;
  Cursor copied_;
  std::vector<Cursor> sent_;  // per child
};

std::unique_ptr<Work> Broadcast(Wire* wire, const Batch& batch, int parent,
                                std::vector<int> children) {
  const bool root = parent < 0;
  const bool copy =
      root && std::any_of(batch.pieces.begin(), batch.pieces.end(), [](const Piece& piece) {
        return piece.output != nullptr && piece.output != piece.input;
      });
  return std::make_unique<Relay>(wire, root ? Inputs(batch) : Outputs(batch), Outputs(batch),
                                 parent, std::move(children), copy);
}

}  // namespace

std::unique_ptr<Work> TreeBroadcast(Wire* wire, const Batch& batch) {
  const int n = wire->size();
  const int distance = (wire->me() - batch.root + n) % n;
  const auto member = [&](int d) { return (d + batch.root) % n; };
  // The parent is my distance without its lowest set bit; the children add one bit below that.
  int bit = 1;
  while (bit < n && (distance & bit) == 0) bit <<= 1;
  const int parent = distance == 0 ? -1 : member(distance ^ bit);
  std::vector<int> children;
  for (bit >>= 1; bit > 0; bit >>= 1) {
    if (distance + bit < n) children.push_back(member(distance + bit));
  }
  return Broadcast(wire, batch, parent, std::move(children));
}

std::unique_ptr<Work> ChainBroadcast(Wire* wire, const Batch& batch) {
  const int n = wire->size();
  const int distance = (wire->me() - batch.root + n) % n;
  const int parent = distance == 0 ? -1 : (wire->me() + n - 1) % n;
  std::vector<int> children;
  if (distance + 1 < n) children.push_back((wire->me() + 1) % n);
  return Broadcast(wire, batch, parent, std::move(children));
}

}  // namespace hvdlite::comm::net
