#include "transport/striped.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace hvdlite::transport {

uint32_t Striped::Head::sequence() const {
  uint32_t value = 0;
  memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

uint32_t Striped::Head::length() const {
  uint32_t value = 0;
  memcpy(&value, bytes.data() + sizeof(value), sizeof(value));
  return value;
}

Striped::Striped(std::vector<Transport*> lanes, std::vector<Traffic*> traffic)
    : lanes_(std::move(lanes)),
      traffic_(std::move(traffic)),
      speeds_(lanes_.size()),
      heads_(lanes_.size()),
      ended_(lanes_.size()) {}

void Striped::Look(Nanos now) {
  if (now - looked_ < kLook) return;
  looked_ = now;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    const Acknowledged seen = lanes_[i]->acknowledged();
    if (seen.known) speeds_[i].Look(seen.bytes, seen.queued, now);
  }
}

void Striped::BeginBlock(size_t bytes) {
  const Nanos now = MonotonicNow();
  Look(now);
  out_left_ = std::min(bytes, BlockBytes(speeds_));
  out_lane_ = ChooseLane(speeds_, out_left_);
  speeds_[out_lane_].Sent(out_left_, now);
  const uint32_t head[] = {out_sequence_++, static_cast<uint32_t>(out_left_)};
  memcpy(out_head_.data(), head, sizeof(head));
  out_head_sent_ = 0;
}

Status Striped::TrySend(const void* data, size_t bytes, size_t* moved) {
  *moved = 0;
  while (*moved < bytes) {
    auto* const from = const_cast<char*>(static_cast<const char*>(data)) + *moved;
    if (out_left_ == 0) BeginBlock(bytes - *moved);
    const size_t head = kHeadBytes - out_head_sent_;
    const size_t payload = std::min(bytes - *moved, out_left_);
    Transport& lane = *lanes_[out_lane_];
    size_t sent = 0;
    const Status status =
        head == 0
            ? lane.TrySend(from, payload, &sent)
            : lane.TrySendBoth({{out_head_.data() + out_head_sent_, head}, {from, payload}}, &sent);
    const size_t of_head = std::min(sent, head);
    out_head_sent_ += of_head;
    out_left_ -= sent - of_head;
    *moved += sent - of_head;
    traffic_[out_lane_]->sent.fetch_add(sent - of_head, std::memory_order_relaxed);
    if (!status.ok() || sent < head + payload) return status;
  }
  return Status::Ok();
}

Status Striped::ReadHead(size_t i) {
  Head& head = heads_[i];
  if (head.come == kHeadBytes || !ended_[i].ok()) return Status::Ok();
  size_t moved = 0;
  const Status status =
      lanes_[i]->TryReceive(head.bytes.data() + head.come, kHeadBytes - head.come, &moved);
  if (!status.ok()) {
    if (!lanes_[i]->ended()) return status;
    ended_[i] = status;
    return Status::Ok();
  }
  head.come += moved;
  if (head.come < kHeadBytes) return Status::Ok();
  const uint32_t ahead = head.sequence() - in_sequence_;
  if (ahead < 1u << 31 && head.length() > 0 && head.length() <= kMostInBlock) return Status::Ok();
  return Status::PeerLost(Cause::kDamaged, {peer()},
                          lanes_[i]->Name() + " changes what it carries: instead of block " +
                              std::to_string(in_sequence_) + " came block " +
                              std::to_string(head.sequence()) + " of " +
                              std::to_string(head.length()) + " bytes");
}

// A lane that has ended does not end the others: their last bytes may still be under way. But no
// peer closes one lane and keeps another.
Status Striped::FindNextBlock() {
  for (size_t i = 0; i < lanes_.size(); ++i) {
    HVDLITE_RETURN_IF_ERROR(ReadHead(i));
    if (heads_[i].come < kHeadBytes || heads_[i].sequence() != in_sequence_) continue;
    in_lane_ = i;
    in_left_ = heads_[i].length();
    ++in_sequence_;
    return Status::Ok();
  }
  for (size_t i = 0; i < lanes_.size(); ++i) {
    if (ended_[i].ok() && heads_[i].come < kHeadBytes) return Status::Ok();
  }
  for (const Status& ended : ended_) HVDLITE_RETURN_IF_ERROR(ended);
  return Status::PeerLost(
      Cause::kDamaged, {peer()},
      Name() + " changes what it carries: block " + std::to_string(in_sequence_) + " is missing");
}

Status Striped::TryReceive(void* data, size_t bytes, size_t* moved) {
  *moved = 0;
  if (bytes == 0) return Status::Ok();
  Look(MonotonicNow());
  if (in_lane_ == kNone) {
    HVDLITE_RETURN_IF_ERROR(FindNextBlock());
    if (in_lane_ == kNone) return Status::Ok();
  }
  const Status status = lanes_[in_lane_]->TryReceive(data, std::min(bytes, in_left_), moved);
  in_left_ -= *moved;
  traffic_[in_lane_]->received.fetch_add(*moved, std::memory_order_relaxed);
  if (in_left_ == 0) heads_[std::exchange(in_lane_, kNone)].come = 0;
  return status;
}

void Striped::WakeAt(size_t bytes) {
  for (size_t i = 0; i < lanes_.size(); ++i)
    lanes_[i]->WakeAt(i == in_lane_ ? std::min(bytes, in_left_) : 1);
}

bool Striped::holds_bytes() const {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [](const Transport* lane) { return lane->holds_bytes(); });
}

// A lane whose next block is not due yet has nothing to say, although its descriptor is readable.
// The head of the block that is due may have been read before.
bool Striped::IsDue(size_t i) const {
  if (in_lane_ != kNone) return i == in_lane_;
  const Head& head = heads_[i];
  return head.come < kHeadBytes ? ended_[i].ok() : head.sequence() == in_sequence_;
}

void Striped::AddPollFds(short events, std::vector<pollfd>* fds) const {
  if ((events & POLLOUT) != 0) lanes_[out_lane_]->AddPollFds(POLLOUT, fds);
  if ((events & POLLIN) == 0) return;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    if (IsDue(i)) lanes_[i]->AddPollFds(POLLIN, fds);
  }
}

}  // namespace hvdlite::transport
