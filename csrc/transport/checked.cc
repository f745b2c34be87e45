#include "transport/checked.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/crc32c.h"

namespace hvdlite::transport {
namespace {

constexpr size_t kShort = 64;

struct CheckedHeader {
  uint32_t length;
  uint32_t sequence;
  uint32_t payload_check;
  uint32_t header_check;

  uint32_t Check() const { return Crc32c(0, this, sizeof(CheckedHeader) - sizeof(header_check)); }
};
static_assert(sizeof(CheckedHeader) == Checked::kHeaderBytes);

}  // namespace

void Checked::BeginFrame(size_t bytes, uint32_t check) {
  out_left_ = bytes;
  CheckedHeader header{static_cast<uint32_t>(bytes), out_sequence_++, check, 0};
  header.header_check = header.Check();
  memcpy(out_header_.data(), &header, sizeof(header));
  out_header_sent_ = 0;
}

Status Checked::TrySend(const void* data, size_t bytes, size_t* moved) {
  *moved = 0;
  while (*moved < bytes) {
    auto* const from = const_cast<char*>(static_cast<const char*>(data)) + *moved;
    if (out_left_ == 0) {
      const size_t whole = std::min(bytes - *moved, kMostInFrame);
      BeginFrame(whole, Crc32c(0, from, whole));
    }
    const size_t header = kHeaderBytes - out_header_sent_;
    const size_t payload = std::min(bytes - *moved, out_left_);
    size_t sent = 0;
    const Status status =
        header == 0
            ? inner_->TrySend(from, payload, &sent)
            : inner_->TrySendBoth(
                  {{out_header_.data() + out_header_sent_, header}, {from, payload}}, &sent);
    const size_t of_header = std::min(sent, header);
    out_header_sent_ += of_header;
    out_left_ -= sent - of_header;
    *moved += sent - of_header;
    if (!status.ok() || sent < header + payload) return status;
  }
  return Status::Ok();
}

Status Checked::TrySendAsOne(const iovec (&parts)[2], size_t* moved) {
  const size_t first = parts[0].iov_len;
  const size_t whole = first + parts[1].iov_len;
  if (out_left_ > 0 || first == 0 || first > kShort || whole > kMostInFrame)
    return TrySendBoth(parts, moved);
  BeginFrame(whole, Crc32c(Crc32c(0, parts[0].iov_base, first), parts[1].iov_base, whole - first));
  std::array<char, kHeaderBytes + kShort> front;
  memcpy(front.data(), out_header_.data(), kHeaderBytes);
  memcpy(front.data() + kHeaderBytes, parts[0].iov_base, first);
  size_t sent = 0;
  const Status status =
      inner_->TrySendBoth({{front.data(), kHeaderBytes + first}, parts[1]}, &sent);
  out_header_sent_ = std::min(sent, kHeaderBytes);
  *moved = sent - out_header_sent_;
  out_left_ -= *moved;
  return status;
}

Status Checked::Damaged(const std::string& what) {
  return damaged_ = Status::PeerLost(Cause::kDamaged, {peer()},
                                     Name() + " changes what it carries: " + what +
                                         ". A network card, a cable, a switch or memory is at "
                                         "fault, or the program has written into a tensor "
                                         "while it was being communicated.");
}

void Checked::Take(char* to, const char* from, size_t bytes) {
  if (from != nullptr) memcpy(to, from, bytes);
  in_so_far_ = Crc32c(in_so_far_, to, bytes);
  in_come_ += bytes;
  in_left_ -= bytes;
}

Status Checked::ReadHeader(char* to, size_t bytes) {
  const size_t known = ahead_end_ - ahead_begin_;
  if (known >= kHeaderBytes) return Believe(bytes);
  memmove(ahead_.data(), ahead_.data() + ahead_begin_, known);
  ahead_begin_ = 0;
  ahead_end_ = known;
  size_t n = 0;
  const Status status =
      inner_->TryReceiveBoth({{ahead_.data() + known, kHeaderBytes - known}, {to, bytes}}, &n);
  const size_t of_header = std::min(n, kHeaderBytes - known);
  ahead_end_ += of_header;
  if (ahead_end_ < kHeaderBytes) return status;
  HVDLITE_RETURN_IF_ERROR(Believe(bytes));
  const size_t behind = n - of_header;
  const size_t payload = std::min(behind, in_left_);
  Take(in_place_ ? to : kept_.data(), in_place_ ? nullptr : to, payload);
  PutBack(to + payload, behind - payload);
  return Status::Ok();
}

// Begins the frame whose header has arrived. `bytes` is the caller's room.
Status Checked::Believe(size_t bytes) {
  CheckedHeader header;
  memcpy(&header, ahead_.data() + ahead_begin_, sizeof(header));
  ahead_begin_ += sizeof(header);
  const std::string which = "of frame " + std::to_string(in_sequence_);
  if (header.header_check != header.Check())
    return Damaged("the header " + which + " does not fit its check word");
  if (header.sequence != in_sequence_ || header.length == 0 || header.length > kMostInFrame) {
    return Damaged("instead " + which + " came frame " + std::to_string(header.sequence) + " of " +
                   std::to_string(header.length) + " bytes");
  }
  in_left_ = header.length;
  in_come_ = 0;
  in_check_ = header.payload_check;
  in_so_far_ = 0;
  in_place_ = in_left_ <= bytes;
  if (!in_place_) kept_.resize(kMostInFrame);
  kept_begin_ = 0;
  return Status::Ok();
}

void Checked::PutBack(const char* from, size_t bytes) {
  if (bytes == 0) return;
  if (ahead_.size() < bytes) ahead_.resize(bytes);
  memcpy(ahead_.data(), from, bytes);
  ahead_begin_ = 0;
  ahead_end_ = bytes;
}

Status Checked::ReadPayload(char* to, bool* moved) {
  const size_t known = std::min(in_left_, ahead_end_ - ahead_begin_);
  if (known > 0) {
    Take(to + in_come_, ahead_.data() + ahead_begin_, known);
    ahead_begin_ += known;
    *moved = true;
    if (in_left_ == 0) return Status::Ok();
  }
  ahead_begin_ = ahead_end_ = 0;
  size_t n = 0;
  const Status status =
      inner_->TryReceiveBoth({{to + in_come_, in_left_}, {ahead_.data(), kHeaderBytes}}, &n);
  const size_t payload = std::min(n, in_left_);
  Take(to + in_come_, nullptr, payload);
  ahead_end_ = n - payload;
  *moved |= n > 0;
  return status;
}

Status Checked::TryReceive(void* data, size_t bytes, size_t* moved) {
  *moved = 0;
  if (!damaged_.ok()) return damaged_;
  if (bytes == 0) return Status::Ok();
  auto* const to = static_cast<char*>(data);
  while (kept_right_ == 0) {
    if (in_left_ == 0) {
      HVDLITE_RETURN_IF_ERROR(ReadHeader(to, bytes));
      if (in_left_ == 0 && in_come_ == 0) return Status::Ok();
    }
    while (in_left_ > 0) {
      bool some = false;
      const Status status = ReadPayload(in_place_ ? to : kept_.data(), &some);
      if (in_left_ > 0 && (!status.ok() || !some)) return status;
    }
    if (in_so_far_ != in_check_) {
      return Damaged("frame " + std::to_string(in_sequence_) + " of " + std::to_string(in_come_) +
                     " bytes does not fit its check word");
    }
    ++in_sequence_;
    const size_t right = std::exchange(in_come_, 0);
    if (in_place_) {
      *moved = right;
      return Status::Ok();
    }
    kept_right_ = right;
  }
  *moved = std::min(bytes, kept_right_);
  memcpy(to, kept_.data() + kept_begin_, *moved);
  kept_begin_ += *moved;
  kept_right_ -= *moved;
  return Status::Ok();
}

}  // namespace hvdlite::transport
