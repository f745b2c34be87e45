#include "comm/net/wire.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace hvdlite::comm::net {

namespace {

constexpr std::align_val_t kAlignment{64};
// A system call on loopback costs about 1 us, the time to copy 16 KiB. So longer stretches are not
// worth gathering.
constexpr size_t kGatherBelow = 16 << 10;

}  // namespace

Wire::Wire(int me, int size, std::vector<transport::Transport*> links, size_t piece_bytes,
           size_t scratch_bytes)
    : me_(me),
      size_(size),
      links_(std::move(links)),
      piece_bytes_(std::max<size_t>(piece_bytes / 64 * 64, 64)),
      scratch_bytes_(scratch_bytes),
      waits_(static_cast<size_t>(size), 0),
      wanted_(static_cast<size_t>(size), 0),
      arriving_(static_cast<size_t>(size)) {
  waiting_.reserve(static_cast<size_t>(size));
}

void Wire::Free::operator()(char* memory) const {
  ::operator delete(memory, kAlignment);
}

Wire::Memory Wire::Allocate(size_t bytes) {
  return Memory(static_cast<char*>(::operator new(bytes, kAlignment)));
}

char* Wire::Scratch(size_t bytes) {
  if (bytes > scratch_size_) {
    scratch_.reset();
    scratch_ = Allocate(bytes);
    scratch_size_ = bytes;
  }
  return scratch_.get();
}

void Wire::BeginTurn() {
  for (int member : waiting_) waits_[static_cast<size_t>(member)] = 0;
  waiting_.clear();
  spent_ = 0;
}

void Wire::WaitFor(int member, short events) {
  short& waits = waits_[static_cast<size_t>(member)];
  if (waits == 0) waiting_.push_back(member);
  waits = static_cast<short>(waits | events);
}

Status Wire::SendBytes(int to, const void* data, size_t bytes, size_t* moved) {
  *moved = 0;
  HVDLITE_RETURN_IF_ERROR(links_[static_cast<size_t>(to)]->TrySend(data, bytes, moved));
  if (*moved < bytes) WaitFor(to, POLLOUT);
  spent_ += *moved;
  return Status::Ok();
}

Status Wire::ReceiveInto(int from, void* data, size_t bytes, size_t* moved) {
  *moved = 0;
  bytes = std::min(bytes, piece_bytes_);
  transport::Transport& link = *links_[static_cast<size_t>(from)];
  HVDLITE_RETURN_IF_ERROR(link.TryReceive(data, bytes, moved));
  if (*moved < bytes) {
    WaitFor(from, POLLIN);
    wanted_[static_cast<size_t>(from)] = bytes - *moved;
  }
  if (*moved > 0) pace_.Received(*moved, MonotonicNow());
  // A thread that slept would not hear of bytes that the link holds.
  if (link.holds_bytes() || !pace_.Trickles(*moved, bytes)) spent_ += *moved;
  return Status::Ok();
}

Status Wire::Send(int to, const Flat& flat, Cursor* cursor, size_t limit) {
  const size_t end = std::min(cursor->end, limit);
  if (cursor->at >= end) return Status::Ok();
  const size_t wanted = std::min(end - cursor->at, piece_bytes_);
  size_t bytes = 0;
  const char* data = flat.At(cursor->at, &bytes);
  bytes = std::min(bytes, wanted);
  if (bytes < kGatherBelow && bytes < wanted) {
    if (staging_ == nullptr) staging_ = Allocate(piece_bytes_);
    flat.Walk(cursor->at, cursor->at + wanted, [&](const char* run, size_t offset, size_t count) {
      std::memcpy(staging_.get() + (offset - cursor->at), run, count);
    });
    data = staging_.get();
    bytes = wanted;
  }
  size_t moved = 0;
  HVDLITE_RETURN_IF_ERROR(SendBytes(to, data, bytes, &moved));
  cursor->at += moved;
  return Status::Ok();
}

Status Wire::Receive(int from, const Flat& flat, Cursor* cursor, size_t limit) {
  const size_t end = std::min(cursor->end, limit);
  if (cursor->at >= end) return Status::Ok();
  const size_t wanted = std::min(end - cursor->at, piece_bytes_);
  size_t bytes = 0;
  char* data = flat.At(cursor->at, &bytes);
  size_t moved = 0;
  if (bytes >= wanted || bytes >= kGatherBelow) {
    HVDLITE_RETURN_IF_ERROR(ReceiveInto(from, data, std::min(bytes, wanted), &moved));
  } else {
    Memory& staging = arriving_[static_cast<size_t>(from)];
    if (staging == nullptr) staging = Allocate(piece_bytes_);
    HVDLITE_RETURN_IF_ERROR(ReceiveInto(from, staging.get(), wanted, &moved));
    flat.Walk(cursor->at, cursor->at + moved, [&](char* run, size_t offset, size_t count) {
      std::memcpy(run, staging.get() + (offset - cursor->at), count);
    });
  }
  cursor->at += moved;
  return Status::Ok();
}

// The bytes wanted arrive whatever this member does, so a thread may sleep until half of them have.
void Wire::AddPollFds(std::vector<pollfd>* fds) const {
  for (int member : waiting_) {
    const auto i = static_cast<size_t>(member);
    if ((waits_[i] & POLLIN) != 0) links_[i]->WakeAt(pace_.WakeAt(wanted_[i]));
    links_[i]->AddPollFds(waits_[i], fds);
  }
}

bool Wire::slow() const {
  return pace_.slow() && std::any_of(waiting_.begin(), waiting_.end(), [this](int member) {
           const auto i = static_cast<size_t>(member);
           return (waits_[i] & POLLIN) != 0 && wanted_[i] >= Pace::kFew;
         });
}

}  // namespace hvdlite::comm::net
