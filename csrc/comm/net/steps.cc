#include "comm/net/steps.h"

#include <algorithm>

namespace hvdlite::comm::net {

Status Steps::Turn(bool* done) {
  while (now_ < steps_.size()) {
    Step& step = steps_[now_];
    if (!step.stretch.done()) {
      const size_t begin = step.stretch.at;
      step.stretch.at = std::min(step.stretch.end, begin + wire_.piece_bytes());
      step.compute(begin, step.stretch.at);
      wire_.Spend(step.stretch.at - begin);
    }
    if (!step.send.bytes.done()) {
      HVDLITE_RETURN_IF_ERROR(wire_.Send(step.send.member, *step.send.flat, &step.send.bytes));
    }
    if (!step.receive.bytes.done()) {
      HVDLITE_RETURN_IF_ERROR(
          wire_.Receive(step.receive.member, *step.receive.flat, &step.receive.bytes));
    }
    if (!step.stretch.done() || !step.send.bytes.done() || !step.receive.bytes.done())
      return Status::Ok();
    ++now_;
    if (wire_.enough() && now_ < steps_.size()) return Status::Ok();
  }
  *done = true;
  return Status::Ok();
}

}  // namespace hvdlite::comm::net
