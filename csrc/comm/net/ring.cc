// Ring: each member sends to the next and receives from the one before.
//
//   member 0 --> 1 --> 2 --> 3 --> 0        data in 4 segments s0 s1 s2 s3
//
//   reduce-scatter: member r starts with s[r]; each hop adds its own contribution, so that s[i] is summed in
//   the
//                   order i, i+1, ..., i-1 and is complete on member i-1
//   allgather:      the complete segments travel on, overwriting
//
// Cost: allreduce 2 (n-1) steps and 2 M (n-1)/n bytes each way per member, the least possible; allgather
// (n-1) steps and everybody else's bytes. Latency grows with n, but every card carries each byte only once
// each way.
//
// Both phases are one sequence of segments, s[r], s[r-1], s[r-2], ... The k-th one sent is the (k-1)-th
// received. So there are no steps to keep: sending may go as far as receiving (and adding) has come, byte by
// byte, and the two directions progress independently.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "comm/layout.h"
#include "comm/net/algorithms.h"
#include "comm/net/net_work.h"
#include "comm/reduction.h"

namespace hvdlite::comm::net {

namespace {

class Ring : public NetWork {
 public:
  // The first `reducing` segments received are added to, the others are final.
  Ring(Wire* wire, Reduction reduction, std::vector<size_t> begin, int reducing, bool load)
      : NetWork(wire),
        reduction_(std::move(reduction)),
        begin_(std::move(begin)),
        reducing_(reducing),
        steps_(reducing + wire->size() - 1),
        load_(load ? Segment(0) : Cursor{}),
        send_(Segment(0)),
        receive_(Segment(1)) {}

 protected:
  Status Turn(bool* done) override {
    if (!load_.done()) Load();
    while (sent_ < steps_ && !wire_.enough()) {
      const size_t before = send_.at;
      HVDLITE_RETURN_IF_ERROR(wire_.Send(Right(), Source(), &send_, SendLimit()));
      if (!send_.done()) {
        if (send_.at == before) break;
        continue;
      }
      if (++sent_ < steps_) send_ = Segment(sent_);
    }
    const size_t spent = wire_.spent();
    while (received_ < steps_ && wire_.spent() - spent < wire_.piece_bytes()) {
      const size_t before = receive_.at;
      HVDLITE_RETURN_IF_ERROR(received_ < reducing_ ? ReceiveAndAdd()
                                                    : wire_.Receive(Left(), reduction_.out(), &receive_));
      if (!receive_.done()) {
        if (receive_.at == before) break;
        continue;
      }
      if (++received_ < steps_) receive_ = Segment(received_ + 1);
    }
    *done = load_.done() && sent_ == steps_ && received_ == steps_;
    return Status::Ok();
  }

 private:
  int Right() const { return (wire_.me() + 1) % wire_.size(); }
  int Left() const { return (wire_.me() + wire_.size() - 1) % wire_.size(); }

  // The k-th segment of the sequence that this member sends.
  Cursor Segment(int k) const {
    const int n = static_cast<int>(begin_.size()) - 1;
    const auto i = static_cast<size_t>(((wire_.me() - k) % n + n) % n);
    return {begin_[i], begin_[i + 1]};
  }

  // This member's own segment is sent from the input, unless it had to be copied or scaled into the output.
  const Flat& Source() const { return sent_ == 0 && load_.end == 0 ? reduction_.in() : reduction_.out(); }
  size_t SendLimit() const {
    if (sent_ == 0) return load_.end == 0 ? SIZE_MAX : load_.at;
    if (received_ >= sent_) return SIZE_MAX;
    return received_ == sent_ - 1 ? receive_.at : 0;
  }

  void Load() {
    const size_t bytes = std::min(load_.end - load_.at, wire_.piece_bytes());
    reduction_.Load(load_.at, load_.at + bytes);
    load_.at += bytes;
    wire_.Spend(bytes);
  }

  // Bytes come as they like; the kernels take whole elements. The rest waits at the front of the scratch.
  Status ReceiveAndAdd() {
    char* scratch = wire_.Scratch(wire_.piece_bytes());
    const size_t room = std::min(receive_.end - receive_.at, wire_.piece_bytes()) - rest_;
    size_t moved = 0;
    HVDLITE_RETURN_IF_ERROR(wire_.ReceiveInto(Left(), scratch + rest_, room, &moved));
    const size_t have = rest_ + moved;
    const size_t whole = have / reduction_.element() * reduction_.element();
    reduction_.Combine(scratch, receive_.at, receive_.at + whole, received_ == reducing_ - 1);
    receive_.at += whole;
    rest_ = have - whole;
    if (whole > 0 && rest_ > 0) std::memmove(scratch, scratch + whole, rest_);
    return Status::Ok();
  }

  const Reduction reduction_;
  const std::vector<size_t> begin_;  // of each segment, and the end of the last
  const int reducing_;
  const int steps_;
  Cursor load_;     // my own segment's way from the input to the output, if it must go there
  Cursor send_;     // in segment Segment(sent_)
  Cursor receive_;  // in segment Segment(received_ + 1)
  int sent_ = 0;
  int received_ = 0;
  size_t rest_ = 0;  // bytes of an element whose end has not arrived
};

}  // namespace

std::unique_ptr<Work> RingAllreduce(Wire* wire, const Batch& batch) {
  Reduction reduction(batch);
  const bool load = reduction.prescaled();
  return std::make_unique<Ring>(wire, std::move(reduction), EvenBlocks(batch, wire->size()), wire->size() - 1, load);
}

std::unique_ptr<Work> RingAllgather(Wire* wire, const Batch& batch) {
  Layout in = OwnBlock(batch, wire->size(), wire->me(), /*outputs=*/false);
  Layout out = AllBlocks(batch, wire->size(), /*outputs=*/true);
  Batch plain;
  plain.dtype = batch.dtype;
  return std::make_unique<Ring>(wire, Reduction(plain, std::move(in.flat), std::move(out.flat)), std::move(out.begin),
                                /*reducing=*/0, /*load=*/true);
}

}  // namespace hvdlite::comm::net
