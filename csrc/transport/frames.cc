#include "transport/frames.h"

#include <algorithm>
#include <cstring>

namespace hvdlite::transport {
namespace {

struct FrameHeader {
  uint32_t length;
  uint32_t sequence;
};

constexpr size_t kRead = 4096;
constexpr size_t kGrow = 1 << 20;

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

Status FrameChannel::SendNow(std::string_view head, std::string_view body) {
  const bool at_once = !wants_to_send();
  if (at_once) {
    out_.clear();
    sent_ = 0;
  }
  const FrameHeader header{static_cast<uint32_t>(head.size() + body.size()), next_out_++};
  out_.append(reinterpret_cast<const char*>(&header), sizeof(header));
  out_.append(head);
  size_t n = 0;
  Status status;
  if (at_once) {
    status = transport_->TrySendAsOne(
        {{out_.data(), out_.size()}, {const_cast<char*>(body.data()), body.size()}}, &n);
  }
  const size_t of_head = std::min(n, out_.size());
  sent_ += of_head;
  out_.append(body.substr(n - of_head));
  return status;
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

Status FrameChannel::Next(std::string_view* frame, bool* moved) {
  *frame = {};
  for (;;) {
    size_t missing = kRead;  // most reads carry one small frame
    if (end_ - begin_ >= sizeof(FrameHeader)) {
      FrameHeader header;
      memcpy(&header, in_.data() + begin_, sizeof(header));
      if (header.length > kMaxFrame || header.sequence != next_in_) {
        return Status::Internal("control stream with rank " + std::to_string(transport_->peer()) +
                                " is broken (frame out of sequence)");
      }
      const size_t whole = sizeof(header) + header.length;
      if (end_ - begin_ >= whole) {
        ++next_in_;
        *frame = std::string_view(in_.data() + begin_ + sizeof(header), header.length);
        begin_ += whole;
        return Status::Ok();
      }
      // Memory grows with the bytes received, not with the length announced.
      missing = std::max(missing, std::min(whole - (end_ - begin_), kGrow));
    }
    if (begin_ == end_) {
      begin_ = end_ = 0;
    } else if (begin_ > kRead) {
      memmove(in_.data(), in_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    if (in_.size() < end_ + missing) in_.resize(end_ + missing);
    size_t n = 0;
    HVDLITE_RETURN_IF_ERROR(transport_->TryReceive(in_.data() + end_, in_.size() - end_, &n));
    if (n == 0) return Status::Ok();
    end_ += n;
    *moved = true;
  }
}

}  // namespace hvdlite::transport
