#include "comm/nccl/nccl_work.h"

namespace hvdlite::comm::nccl {

Progress NcclWork::Advance() {
  bool done = false;
  const Status status = Continue(&done);
  if (!status.ok()) return Fail(status);
  return done ? Progress::kDone : Progress::kNone;
}

// Continues as far as NCCL allows.
Status NcclWork::Continue(bool* done) {
  if (!begun_) {
    begun_ = true;
    for (const device::EventPtr& event : batch_.ready) {
      HVDLITE_RETURN_IF_ERROR(event->MakeWait(gpu()->stream()));
    }
    HVDLITE_RETURN_IF_ERROR(Begin(&rest_));
  }
  while (true) {
    bool ready = false;
    HVDLITE_RETURN_IF_ERROR(all_.channels_->Poll(&ready));
    if (!ready) return Status::Ok();
    if (next_ == rest_.size()) break;
    HVDLITE_RETURN_IF_ERROR(rest_[next_++]());
  }
  HVDLITE_RETURN_IF_ERROR(gpu()->Record(gpu()->stream(), &finished_));
  all_.last_ = finished_;
  *done = true;
  return Status::Ok();
}

Status NcclWork::Move(const kernels::Scaling& scaling, const std::vector<kernels::Move>& moves) {
  return moves.empty() ? Status::Ok() : kernels::MoveScaled(gpu(), scaling, moves);
}

Status NcclWork::Run(const std::vector<Call>& calls, Among among) {
  return calls.empty() ? Status::Ok() : all_.channels_->Run(among, calls);
}

}  // namespace hvdlite::comm::nccl
