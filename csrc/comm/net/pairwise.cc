// Pairwise: every member sends a block straight to every other: alltoall, and allgather of small
// tensors.
//
//   me ──► me+1, me+2, ... me+w      at most w sends and w receives at a time,
//   me ◄── me-1, me-2, ... me-w      nearest first, moving on as they complete
//
// Cost: 1 step of n-1 messages; each byte travels once.
//
// The window bounds how many senders meet at one receiver. It cannot deadlock: let k be the
// smallest distance at which any pair is unfinished; all distances before it are done everywhere,
// so k is in every member's window.
#include <algorithm>
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

class Pairwise : public NetWork {
 public:
  // sends[i]: the stretch of `source` for member i. receives[i]: the place of member i's block in
  // `target`. This member's own block is copied from sends[me] to receives[me].
  Pairwise(Wire* wire, Flat source, std::vector<Cursor> sends, Flat target,
           std::vector<Cursor> receives)
      : NetWork(wire),
        source_(std::move(source)),
        target_(std::move(target)),
        sends_(std::move(sends)),
        receives_(std::move(receives)) {}

 protected:
  Status Turn(bool* done) override {
    const int n = wire_.size();
    while (send_from_ < n && Sent(send_from_).done()) ++send_from_;
    while (receive_from_ < n && Received(receive_from_).done()) ++receive_from_;
    const int send_to = std::min(n, send_from_ + kWindow);
    for (int k = send_from_; k < send_to && !wire_.enough(); ++k) {
      HVDLITE_RETURN_IF_ERROR(wire_.Send(To(k), source_, &Sent(k)));
    }
    const size_t sent = wire_.spent();
    const int receive_to = std::min(n, receive_from_ + kWindow);
    for (int k = receive_from_; k < receive_to && wire_.spent() - sent < wire_.piece_bytes(); ++k) {
      HVDLITE_RETURN_IF_ERROR(wire_.Receive(From(k), target_, &Received(k)));
    }
    CopyOwn();
    *done = Received(0).done();
    for (int k = 1; k < n && *done; ++k) *done = Sent(k).done() && Received(k).done();
    return Status::Ok();
  }

 private:
  int To(int distance) const { return (wire_.me() + distance) % wire_.size(); }
  int From(int distance) const { return (wire_.me() + wire_.size() - distance) % wire_.size(); }
  Cursor& Sent(int distance) { return sends_[static_cast<size_t>(To(distance))]; }
  Cursor& Received(int distance) { return receives_[static_cast<size_t>(From(distance))]; }

  // Copies a piece of my own block, so that no turn is long.
  void CopyOwn() {
    Cursor& from = Sent(0);
    Cursor& to = Received(0);
    const size_t bytes = std::min(to.end - to.at, wire_.piece_bytes());
    if (bytes == 0) return;
    Copy(source_, from.at, target_, to.at, bytes);
    from.at += bytes;
    to.at += bytes;
    wire_.Spend(bytes);
  }

  const Flat source_;
  const Flat target_;
  std::vector<Cursor> sends_;     // by member
  std::vector<Cursor> receives_;  // by member
  int send_from_ = 1;             // distances below are done
  int receive_from_ = 1;
};

}  // namespace

std::unique_ptr<Work> PairwiseAllgather(Wire* wire, const Batch& batch) {
  const int n = wire->size();
  Layout in = OwnBlock(batch, n, wire->me(), /*outputs=*/false);
  Layout out = AllBlocks(batch, n, /*outputs=*/true);
  std::vector<Cursor> sends(static_cast<size_t>(n), in.Block(wire->me()));
  std::vector<Cursor> receives = BlocksOf(out.begin);
  return std::make_unique<Pairwise>(wire, std::move(in.flat), std::move(sends), std::move(out.flat),
                                    std::move(receives));
}

std::unique_ptr<Work> PairwiseAlltoall(Wire* wire, const Batch& batch) {
  const int n = wire->size();
  Layout in = SentBlocks(batch, n, wire->me());
  Layout out = ReceivedBlocks(batch, n, wire->me());
  std::vector<Cursor> sends = BlocksOf(in.begin);
  std::vector<Cursor> receives = BlocksOf(out.begin);
  return std::make_unique<Pairwise>(wire, std::move(in.flat), std::move(sends), std::move(out.flat),
                                    std::move(receives));
}

}  // namespace hvdlite::comm::net
