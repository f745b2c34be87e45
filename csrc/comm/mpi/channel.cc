#include "comm/mpi/channel.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/leak.h"

namespace hvdlite::comm::mpi {

namespace {

// Slots allocate memory in blocks of at least this size.
constexpr size_t kBlockBytes = 1 << 20;
constexpr Nanos kOpeningPause = 100 * kMicrosecond;

// The result of the thread that opens a channel. Both threads own it, because the waiting one may
// have given up.
struct Opening {
  std::atomic<bool> done{false};
  Status status;
  Handle comm = 0;
  int me = 0;
};

Status Create(const Library& mpi, Handle base, const std::vector<int>& ranks, int tag,
              Opening* out) {
  Handle all = 0;
  Handle ours = 0;
  HVDLITE_RETURN_IF_ERROR(mpi.Check(mpi.Comm_group(base, &all), "MPI_Comm_group"));
  HVDLITE_RETURN_IF_ERROR(mpi.Check(
      mpi.Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &ours), "MPI_Group_incl"));
  HVDLITE_RETURN_IF_ERROR(
      mpi.Check(mpi.Comm_create_group(base, ours, tag, &out->comm), "MPI_Comm_create_group"));
  mpi.Group_free(&ours);
  mpi.Group_free(&all);
  // From here on MPI returns errors as numbers; its default is to end the process.
  HVDLITE_RETURN_IF_ERROR(
      mpi.Check(mpi.Comm_set_errhandler(out->comm, mpi.ERRORS_RETURN), "MPI_Comm_set_errhandler"));
  return mpi.Check(mpi.Comm_rank(out->comm, &out->me), "MPI_Comm_rank");
}

}  // namespace

Status Channel::Open(std::shared_ptr<const Library> library, Handle base,
                     const std::vector<int>& ranks, int tag, const Until& until,
                     std::unique_ptr<Channel>* out) {
  if (library->finalized())
    return Status::Unsupported("MPI was finalised, but hvdlite has to use it");
  // MPI offers no way to abandon a communicator before all members have joined. So a separate
  // thread waits in MPI. If a rank never joins, that thread waits for ever, but the job ends
  // anyway.
  auto opening = std::make_shared<Opening>();
  std::thread([library, base, ranks, tag, opening] {
    opening->status = Create(*library, base, ranks, tag, opening.get());
    opening->done.store(true, std::memory_order_release);
  }).detach();
  while (!opening->done.load(std::memory_order_acquire)) {
    HVDLITE_RETURN_IF_ERROR(until.Look());
    if (until.deadline.Passed()) {
      return Status::Timeout(
          "the " + std::to_string(ranks.size()) +
          " ranks of a process set did not all make its MPI communicator in time "
          "(HVDLITE_START_TIMEOUT says how long to wait)");
    }
    std::this_thread::sleep_for(std::chrono::nanoseconds(kOpeningPause));
  }
  HVDLITE_RETURN_IF_ERROR(opening->status);
  std::unique_ptr<Channel> channel(new Channel(std::move(library), opening->comm));
  channel->me_ = opening->me;
  channel->size_ = static_cast<int>(ranks.size());
  *out = std::move(channel);
  return Status::Ok();
}

Channel::~Channel() {
  if (!broken_ && !library_->finalized()) library_->Comm_free(&comm_);
}

char* Unbroken(const Flat& flat, Cursor stretch) {
  size_t reach = 0;
  char* const data = flat.At(stretch.at, &reach);
  return reach >= stretch.end - stretch.at ? data : nullptr;
}

Slot::~Slot() {
  if (done_ == count_) return;
  channel_.Break();
  // A send cannot be undone. A receive must be cancelled, because its memory may be freed.
  const Library& mpi = channel_.library();
  if (mpi.finalized()) return;
  for (size_t i = done_; i < count_; ++i) {
    if (requests_[i]->receives && mpi.Cancel(&requests_[i]->handle) == 0)
      mpi.Request_free(&requests_[i]->handle);
  }
  // MPI may still read from this memory.
  for (Block& block : blocks_) LeakOnPurpose(block.memory.release());
  for (size_t i = done_; i < count_; ++i) LeakOnPurpose(requests_[i].release());
}

void Slot::Reset() {
  count_ = done_ = seen_ = 0;
  landings_.clear();
  block_ = taken_ = 0;
}

char* Slot::Memory(size_t bytes) {
  bytes = (bytes + 63) / 64 * 64;
  while (block_ < blocks_.size() && blocks_[block_].size - taken_ < bytes) {
    ++block_;
    taken_ = 0;
  }
  if (block_ == blocks_.size()) {
    const size_t size = std::max(bytes, kBlockBytes);
    blocks_.push_back({std::make_unique_for_overwrite<char[]>(size), size});
  }
  char* const memory = blocks_[block_].memory.get() + taken_;
  taken_ += bytes;
  return memory;
}

Handle* Slot::AddRequest() {
  if (count_ == requests_.size()) requests_.push_back(std::make_unique<Request>());
  Request& request = *requests_[count_++];
  request = Request();
  return &request.handle;
}

char* Slot::Gather(const Flat& flat, Cursor stretch) {
  if (char* const data = Unbroken(flat, stretch)) return data;
  char* const memory = Memory(stretch.end - stretch.at);
  CopyOut(flat, stretch, memory);
  return memory;
}

char* Slot::Await(const Flat& flat, Cursor stretch) {
  if (char* const data = Unbroken(flat, stretch)) return data;
  char* const memory = Memory(stretch.end - stretch.at);
  landings_.push_back({&flat, stretch, memory});
  return memory;
}

Status Slot::Send(const Flat& flat, Cursor stretch, int to, int tag) {
  if (stretch.done()) return Status::Ok();
  return SendFrom(Gather(flat, stretch), stretch.end - stretch.at, to, tag);
}

Status Slot::SendFrom(const void* memory, size_t bytes, int to, int tag) {
  if (bytes == 0) return Status::Ok();
  const Library& mpi = channel_.library();
  return mpi.Check(
      mpi.Isend(memory, static_cast<int>(bytes), mpi.BYTE, to, tag, channel_.comm(), AddRequest()),
      "MPI_Isend");
}

Status Slot::Receive(const Flat& flat, Cursor stretch, int from, int tag) {
  if (stretch.done()) return Status::Ok();
  return ReceiveInto(Await(flat, stretch), stretch.end - stretch.at, from, tag);
}

Status Slot::ReceiveInto(void* memory, size_t bytes, int from, int tag) {
  if (bytes == 0) return Status::Ok();
  const Library& mpi = channel_.library();
  Handle* const request = AddRequest();
  requests_[count_ - 1]->receives = true;
  return mpi.Check(
      mpi.Irecv(memory, static_cast<int>(bytes), mpi.BYTE, from, tag, channel_.comm(), request),
      "MPI_Irecv");
}

// All requests have to complete, so it is enough to test the first incomplete one. Each test
// advances MPI as a whole.
Status Slot::Test(bool* done) {
  const Library& mpi = channel_.library();
  *done = false;
  for (; done_ < count_; ++done_) {
    StatusScratch ignored;
    int complete = 0;
    const int code = mpi.Test(&requests_[done_]->handle, &complete, &ignored);
    if (code != 0) {
      ++done_;  // MPI has freed the request
      return mpi.Check(code, "MPI_Test");
    }
    if (complete == 0) return Status::Ok();
  }
  *done = true;
  return Status::Ok();
}

bool Slot::Moved() {
  const bool moved = done_ != seen_;
  seen_ = done_;
  return moved;
}

void Slot::Scatter() {
  for (const Landing& landing : landings_) {
    landing.flat->Walk(landing.stretch.at, landing.stretch.end,
                       [&](char* data, size_t at, size_t bytes) {
                         std::memcpy(data, landing.memory + (at - landing.stretch.at), bytes);
                       });
  }
}

}  // namespace hvdlite::comm::mpi
