#include "comm/mpi/pipe.h"

#include <algorithm>
#include <cstring>

namespace hvdlite::comm::mpi {

namespace {

constexpr int kStream = 4;  // the tag

}  // namespace

Pipe::Pipe(Channel* channel, int member, int peer)
    : channel_(*channel),
      member_(member),
      peer_(peer),
      out_{Slot(channel), Slot(channel), Slot(channel), Slot(channel)},
      in_(channel) {}

Status Pipe::TrySend(const void* data, size_t bytes, size_t* moved) {
  *moved = 0;
  while (*moved < bytes) {
    Slot& slot = out_[next_out_ % kInFlight];
    bool free = false;
    HVDLITE_RETURN_IF_ERROR(slot.Test(&free));
    if (!free) return Status::Ok();
    slot.Reset();
    const size_t some = std::min(kMessageBytes, bytes - *moved);
    char* const memory = slot.Memory(some);
    std::memcpy(memory, static_cast<const char*>(data) + *moved, some);
    HVDLITE_RETURN_IF_ERROR(slot.SendFrom(memory, some, member_, kStream));
    ++next_out_;
    *moved += some;
  }
  return Status::Ok();
}

Status Pipe::TryReceive(void* data, size_t bytes, size_t* moved) {
  *moved = 0;
  const Library& mpi = channel_.library();
  while (*moved < bytes) {
    if (left_ == 0 && coming_ == 0) {
      StatusScratch status;
      int there = 0;
      HVDLITE_RETURN_IF_ERROR(
          mpi.Check(mpi.Iprobe(member_, kStream, channel_.comm(), &there, &status), "MPI_Iprobe"));
      if (there == 0) return Status::Ok();
      int count = 0;
      HVDLITE_RETURN_IF_ERROR(mpi.Check(mpi.Get_count(&status, mpi.BYTE, &count), "MPI_Get_count"));
      in_.Reset();
      coming_ = static_cast<size_t>(count);
      char* const memory = in_.Memory(coming_);
      arrived_ = memory;
      HVDLITE_RETURN_IF_ERROR(in_.ReceiveInto(memory, coming_, member_, kStream));
    }
    if (coming_ > 0) {
      bool done = false;
      HVDLITE_RETURN_IF_ERROR(in_.Test(&done));
      if (!done) return Status::Ok();
      left_ = coming_;
      coming_ = 0;
    }
    const size_t some = std::min(left_, bytes - *moved);
    std::memcpy(static_cast<char*>(data) + *moved, arrived_, some);
    arrived_ += some;
    left_ -= some;
    *moved += some;
  }
  return Status::Ok();
}

}  // namespace hvdlite::comm::mpi
