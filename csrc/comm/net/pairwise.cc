// Pairwise: every member sends a block straight to every other: alltoall, allgather of small
// tensors, and Exchanges, which follow one another on each link.
//
//   me ──► me+1, me+2, ... me+w      at most w sends and w receives at a time,
//   me ◄── me-1, me-2, ... me-w      nearest first, moving on as they complete
//
// Cost: 1 step of n-1 messages; each byte travels once.
//
// The window of each exchange bounds how many senders meet at one receiver. It cannot deadlock: of
// the first exchange that any pair has not finished, let k be the smallest distance at which a pair
// is unfinished; all distances before it are done everywhere, so k is in every member's window.
#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "comm/layout.h"
#include "comm/net/algorithms.h"
#include "comm/net/net_work.h"

namespace hvdlite::comm::net {

namespace {

// Enough to fill a network card from several senders, and few enough not to overflow a switch's
// buffers.
constexpr int kWindow = 8;

// How many exchanges' blocks have left for each member, and have come from it.
struct Counts {
  explicit Counts(int members)
      : sent(static_cast<size_t>(members), 0), received(static_cast<size_t>(members), 0) {}
  std::vector<size_t> sent, received;  // by member
};

// One exchange. On each link its bytes follow those of the exchange before it.
class Blocks {
 public:
  // sends[i]: the stretch of `source` for member i. receives[i]: the place of member i's block in
  // `target`. This member's own block is copied from sends[me] to receives[me].
  Blocks(const Wire& wire, Flat source, std::vector<Cursor> sends, Flat target,
         std::vector<Cursor> receives)
      : me_(wire.me()),
        size_(wire.size()),
        source_(std::move(source)),
        target_(std::move(target)),
        sends_(std::move(sends)),
        receives_(std::move(receives)) {}

  // This is exchange `number`. Moves what can move, about a piece.
  Status Send(Wire* wire, size_t number, Counts* counts) {
    // Blocks without bytes need no turn.
    for (; send_from_ < size_; ++send_from_) {
      size_t& sent = counts->sent[At(To(send_from_))];
      if (sent == number && Sent(send_from_).done()) ++sent;
      if (sent <= number) break;
    }
    const int send_to = std::min(size_, send_from_ + kWindow);
    for (int k = send_from_; k < send_to && !wire->enough(); ++k) {
      size_t& sent = counts->sent[At(To(k))];
      if (sent != number) continue;
      HVDLITE_RETURN_IF_ERROR(wire->Send(To(k), source_, &Sent(k)));
      if (Sent(k).done()) ++sent;
    }
    return Status::Ok();
  }
  Status Receive(Wire* wire, size_t number, size_t most, Counts* counts) {
    for (; receive_from_ < size_; ++receive_from_) {
      size_t& received = counts->received[At(From(receive_from_))];
      if (received == number && Received(receive_from_).done()) ++received;
      if (received <= number) break;
    }
    const int receive_to = std::min(size_, receive_from_ + kWindow);
    for (int k = receive_from_; k < receive_to && wire->spent() < most; ++k) {
      size_t& received = counts->received[At(From(k))];
      if (received != number) continue;
      HVDLITE_RETURN_IF_ERROR(wire->Receive(From(k), target_, &Received(k)));
      if (Received(k).done()) ++received;
    }
    return Status::Ok();
  }
  // Copies a piece of my own block, so that no turn is long.
  void CopyOwn(Wire* wire) {
    Cursor& from = Sent(0);
    Cursor& to = Received(0);
    const size_t bytes = std::min(to.end - to.at, wire->piece_bytes());
    if (bytes == 0) return;
    Copy(source_, from.at, target_, to.at, bytes);
    from.at += bytes;
    to.at += bytes;
    wire->Spend(bytes);
  }
  bool done(size_t number, const Counts& counts) {
    bool all = Received(0).done();
    for (int k = 1; k < size_ && all; ++k)
      all = counts.sent[At(To(k))] > number && counts.received[At(From(k))] > number;
    return all;
  }

 private:
  static size_t At(int member) { return static_cast<size_t>(member); }
  int To(int distance) const { return (me_ + distance) % size_; }
  int From(int distance) const { return (me_ + size_ - distance) % size_; }
  Cursor& Sent(int distance) { return sends_[At(To(distance))]; }
  Cursor& Received(int distance) { return receives_[At(From(distance))]; }

  const int me_, size_;
  const Flat source_;
  const Flat target_;
  std::vector<Cursor> sends_;     // by member
  std::vector<Cursor> receives_;  // by member
  int send_from_ = 1;             // distances below are done
  int receive_from_ = 1;
};

std::unique_ptr<Blocks> BlocksOfAllgather(const Wire& wire, const Batch& batch) {
  const int n = wire.size();
  Layout in = OwnBlock(batch, n, wire.me(), /*outputs=*/false);
  Layout out = AllBlocks(batch, n, /*outputs=*/true);
  std::vector<Cursor> sends(static_cast<size_t>(n), in.Block(wire.me()));
  std::vector<Cursor> receives = BlocksOf(out.begin);
  return std::make_unique<Blocks>(wire, std::move(in.flat), std::move(sends), std::move(out.flat),
                                  std::move(receives));
}

std::unique_ptr<Blocks> BlocksOfAlltoall(const Wire& wire, const Batch& batch) {
  const int n = wire.size();
  Layout in = SentBlocks(batch, n, wire.me());
  Layout out = ReceivedBlocks(batch, n, wire.me());
  std::vector<Cursor> sends = BlocksOf(in.begin);
  std::vector<Cursor> receives = BlocksOf(out.begin);
  return std::make_unique<Blocks>(wire, std::move(in.flat), std::move(sends), std::move(out.flat),
                                  std::move(receives));
}

class Pairwise : public NetWork {
 public:
  Pairwise(Wire* wire, std::unique_ptr<Blocks> blocks)
      : NetWork(wire), blocks_(std::move(blocks)), counts_(wire->size()) {}

 protected:
  Status Turn(bool* done) override {
    HVDLITE_RETURN_IF_ERROR(blocks_->Send(&wire_, 0, &counts_));
    const size_t most = wire_.spent() + wire_.piece_bytes();
    HVDLITE_RETURN_IF_ERROR(blocks_->Receive(&wire_, 0, most, &counts_));
    blocks_->CopyOwn(&wire_);
    *done = blocks_->done(0, counts_);
    return Status::Ok();
  }

 private:
  const std::unique_ptr<Blocks> blocks_;
  Counts counts_;
};

// Exchange number ended() + i is under_way_[i].
class PairwiseStream final : public Exchanges {
 public:
  PairwiseStream(Wire* wire, std::function<void(OpKind)> count)
      : wire_(*wire), count_(std::move(count)), counts_(wire->size()) {
    wire_.BeginWork();
  }
  // As NetWork's.
  ~PairwiseStream() override {
    if (!under_way_.empty()) wire_.BeginTurn();
  }
  PairwiseStream(const PairwiseStream&) = delete;
  PairwiseStream& operator=(const PairwiseStream&) = delete;

  void Add(const Batch& batch) override {
    count_(batch.kind);
    under_way_.push_back(batch.kind == OpKind::kAllgather ? BlocksOfAllgather(wire_, batch)
                                                          : BlocksOfAlltoall(wire_, batch));
  }

  Progress Advance() override {
    wire_.BeginTurn();
    if (Status status = Turn(); !status.ok()) {
      wire_.BeginTurn();
      return Fail(std::move(status));
    }
    bool some = wire_.spent() > 0;
    for (; !under_way_.empty() && under_way_.front()->done(ended(), counts_); some = true) {
      under_way_.pop_front();
      EndOne();
      wire_.BeginWork();  // the next one's bytes may be late, which says nothing of the links
    }
    if (under_way_.empty()) wire_.BeginTurn();
    return some ? Progress::kSome : under_way_.empty() ? Progress::kDone : Progress::kNone;
  }

 private:
  Status Turn() {
    size_t number = ended();
    for (const auto& blocks : under_way_)
      HVDLITE_RETURN_IF_ERROR(blocks->Send(&wire_, number++, &counts_));
    const size_t most = wire_.spent() + wire_.piece_bytes();
    number = ended();
    for (const auto& blocks : under_way_)
      HVDLITE_RETURN_IF_ERROR(blocks->Receive(&wire_, number++, most, &counts_));
    for (const auto& blocks : under_way_) blocks->CopyOwn(&wire_);
    return Status::Ok();
  }

  Wire& wire_;
  const std::function<void(OpKind)> count_;
  std::deque<std::unique_ptr<Blocks>> under_way_;
  Counts counts_;
};

}  // namespace

std::unique_ptr<Work> PairwiseAllgather(Wire* wire, const Batch& batch) {
  return std::make_unique<Pairwise>(wire, BlocksOfAllgather(*wire, batch));
}

std::unique_ptr<Work> PairwiseAlltoall(Wire* wire, const Batch& batch) {
  return std::make_unique<Pairwise>(wire, BlocksOfAlltoall(*wire, batch));
}

std::unique_ptr<Exchanges> PairwiseExchanges(Wire* wire, std::function<void(OpKind)> count) {
  return std::make_unique<PairwiseStream>(wire, std::move(count));
}

}  // namespace hvdlite::comm::net
