#include "transport/frames.h"

#include <algorithm>
#include <cstring>

namespace hvdlite::transport {
namespace {

struct FrameHeader {
  uint32_t length;
  uint32_t sequence;
};

}  // namespace

void FrameChannel::Send(std::string_view payload) {
  if (sent_ == out_.size()) {
    out_.clear();
    sent_ = 0;
  }
  const FrameHeader header{static_cast<uint32_t>(payload.size()), next_out_++};
  out_.append(reinterpret_cast<const char*>(&header), sizeof(header));
  out_.append(payload);
}

Status FrameChannel::PumpOut(bool* moved) {
  while (sent_ < out_.size()) {
    size_t n = 0;
    HVDLITE_RETURN_IF_ERROR(transport_->TrySend(out_.data() + sent_, out_.size() - sent_, &n));
    if (n == 0) return Status::Ok();
    sent_ += n;
    *moved = true;
  }
  return Status::Ok();
}

Status FrameChannel::Pump(const std::function<Status(std::string_view)>& deliver, bool* moved) {
  HVDLITE_RETURN_IF_ERROR(PumpOut(moved));
  for (;;) {
    // Read straight behind what is waiting; most reads carry one small frame.
    constexpr size_t kRead = 4096;
    size_t want = kRead;
    if (in_.size() - parsed_ >= sizeof(FrameHeader)) {
      FrameHeader header;
      memcpy(&header, in_.data() + parsed_, sizeof(header));
      want = std::max(want, sizeof(header) + header.length - (in_.size() - parsed_));
    }
    const size_t before = in_.size();
    in_.resize(before + want);
    size_t n = 0;
    const Status received = transport_->TryReceive(in_.data() + before, want, &n);
    in_.resize(before + n);
    HVDLITE_RETURN_IF_ERROR(received);
    if (n == 0) return Status::Ok();
    *moved = true;

    while (in_.size() - parsed_ >= sizeof(FrameHeader)) {
      FrameHeader header;
      memcpy(&header, in_.data() + parsed_, sizeof(header));
      if (header.length > kMaxFrame || header.sequence != next_in_) {
        return Status::Internal("control stream with rank " + std::to_string(transport_->peer()) +
                                " is broken (frame out of sequence)");
      }
      if (in_.size() - parsed_ - sizeof(header) < header.length) break;
      ++next_in_;
      const std::string_view payload(in_.data() + parsed_ + sizeof(header), header.length);
      parsed_ += sizeof(header) + header.length;
      HVDLITE_RETURN_IF_ERROR(deliver(payload));
    }
    if (parsed_ == in_.size()) {
      in_.clear();
      parsed_ = 0;
    } else if (parsed_ > kRead) {
      in_.erase(0, parsed_);
      parsed_ = 0;
    }
    if (n < want) return Status::Ok();
  }
}

}  // namespace hvdlite::transport
