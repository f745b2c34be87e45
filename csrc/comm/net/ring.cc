// Ring: each member sends to the next and receives from the one before, until every block has
// been everywhere.
//
//   member 0 --> 1 --> 2 --> 3 --> 0    member r sends block r, r-1, r-2, ...;
//                                       the k-th block sent is the (k-1)-th received
//
// Cost: n-1 steps and the bytes of all other members. Latency grows with n, but every card carries
// each byte only once each way.
//
// The steps are not synchronised: sending may advance as far as receiving has, byte by byte, and
// the two directions progress independently.
#include <algorithm>
#include <utility>

#include "comm/layout.h"
#include "comm/net/algorithms.h"
#include "comm/net/net_work.h"

namespace hvdlite::comm::net {

namespace {

class Ring : public NetWork {
 public:
  // `in` and `out` have the same offsets. In `in` only this member's block has memory.
  Ring(Wire* wire, Flat in, Layout out)
      : NetWork(wire),
        in_(std::move(in)),
        out_(std::move(out)),
        steps_(wire->size() - 1),
        own_(Block(0)),
        send_(Block(0)),
        receive_(Block(1)) {}

 protected:
  Status Turn(bool* done) override {
    if (!own_.done()) CopyOwn();
    while (sent_ < steps_ && !wire_.enough()) {
      const size_t before = send_.at;
      HVDLITE_RETURN_IF_ERROR(
          wire_.Send(Right(), sent_ == 0 ? in_ : out_.flat, &send_, SendLimit()));
      if (!send_.done()) {
        if (send_.at == before) break;
        continue;
      }
      if (++sent_ < steps_) send_ = Block(sent_);
    }
    const size_t spent = wire_.spent();
    while (received_ < steps_ && wire_.spent() - spent < wire_.piece_bytes()) {
      const size_t before = receive_.at;
      HVDLITE_RETURN_IF_ERROR(wire_.Receive(Left(), out_.flat, &receive_));
      if (!receive_.done()) {
        if (receive_.at == before) break;
        continue;
      }
      if (++received_ < steps_) receive_ = Block(received_ + 1);
    }
    *done = own_.done() && sent_ == steps_ && received_ == steps_;
    return Status::Ok();
  }

 private:
  int Right() const { return (wire_.me() + 1) % wire_.size(); }
  int Left() const { return (wire_.me() + wire_.size() - 1) % wire_.size(); }

  // The k-th block that this member sends.
  Cursor Block(int k) const { return out_.Block((wire_.me() - k + wire_.size()) % wire_.size()); }

  size_t SendLimit() const {
    if (received_ >= sent_) return SIZE_MAX;
    return received_ == sent_ - 1 ? receive_.at : 0;
  }

  void CopyOwn() {
    const size_t bytes = std::min(own_.end - own_.at, wire_.piece_bytes());
    Copy(in_, own_.at, out_.flat, own_.at, bytes);
    own_.at += bytes;
    wire_.Spend(bytes);
  }

  const Flat in_;
  const Layout out_;
  const int steps_;
  Cursor own_;      // my own block, copied from the input to the output
  Cursor send_;     // in block Block(sent_)
  Cursor receive_;  // in block Block(received_ + 1)
  int sent_ = 0;
  int received_ = 0;
};

}  // namespace

std::unique_ptr<Work> RingAllgather(Wire* wire, const Batch& batch) {
  Layout in = OwnBlock(batch, wire->size(), wire->me(), /*outputs=*/false);
  return std::make_unique<Ring>(wire, std::move(in.flat),
                                AllBlocks(batch, wire->size(), /*outputs=*/true));
}

}  // namespace hvdlite::comm::net
