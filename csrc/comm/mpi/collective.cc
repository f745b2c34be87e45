// Collectives that MPI does itself, on tensors in place or copied together. Among many members, a
// library tuned for its network, or its switches, does them best.
#include <algorithm>
#include <utility>
#include <vector>

#include "comm/layout.h"
#include "comm/mpi/algorithms.h"
#include "comm/mpi/native.h"
#include "comm/reduction.h"

namespace hvdlite::comm::mpi {

namespace {

// Small tensors are copied together, up to kFused chunks. A larger one is sent from its own memory,
// in parts of at most kLargest chunks.
constexpr size_t kFused = 4;
constexpr size_t kLargest = 256;

// Cuts the pieces into stretches, one for each call of MPI. All members cut alike.
std::vector<Cursor> Stretches(const Batch& batch, size_t chunk) {
  std::vector<Cursor> stretches;
  Cursor fused;
  const auto flush = [&] {
    if (!fused.done()) stretches.push_back(fused);
    fused.at = fused.end;
  };
  for (const Piece& piece : batch.pieces) {
    const size_t bytes = static_cast<size_t>(piece.count) * SizeOf(batch.dtype);
    if (bytes <= chunk) {
      if (fused.end + bytes - fused.at > kFused * chunk) flush();
      fused.end += bytes;
      continue;
    }
    flush();
    const size_t end = fused.end + bytes;
    while (fused.end < end) {
      fused.end = std::min(end, fused.end + kLargest * chunk);
      flush();
    }
  }
  flush();
  return stretches;
}

class Allreduce final : public Rounds {
 public:
  Allreduce(const Context& context, const Batch& batch, std::vector<Cursor> stretches)
      : Rounds(context.slots, stretches.size(), 1),
        channel_(*context.channel),
        reduction_(batch),
        spec_(batch.reduce),
        dtype_(batch.dtype),
        stretches_(std::move(stretches)) {}

 protected:
  Status Post(size_t round, int, Slot* slot) override {
    const Library& mpi = channel_.library();
    const Cursor stretch = stretches_[round];
    const int count = static_cast<int>((stretch.end - stretch.at) / SizeOf(dtype_));
    const void* in = reduction_.prescaled() ? nullptr : Unbroken(reduction_.in(), stretch);
    char* const out = slot->Await(reduction_.out(), stretch);
    if (in == nullptr) {
      CopyOut(reduction_.in(), stretch, out);
      kernels::Scale(dtype_, out, count, spec_.prescale);
      in = out;
    }
    if (in == out) in = mpi.in_place;
    return mpi.Check(mpi.Iallreduce(in, out, count, TypeOf(mpi, dtype_), OperationOf(mpi, spec_.op),
                                    channel_.comm(), slot->AddRequest()),
                     "MPI_Iallreduce");
  }

  void Finish(size_t round, int, Slot*) override {
    reduction_.Finish(stretches_[round].at, stretches_[round].end);
  }

 private:
  const Channel& channel_;
  const Reduction reduction_;
  const kernels::ReduceSpec spec_;
  const DType dtype_;
  const std::vector<Cursor> stretches_;
};

class Broadcast final : public Rounds {
 public:
  Broadcast(const Context& context, const Batch& batch, std::vector<Cursor> stretches)
      : Rounds(context.slots, stretches.size(), 1),
        channel_(*context.channel),
        root_(batch.root),
        stretches_(std::move(stretches)),
        source_(Inputs(batch)),
        target_(Outputs(batch)) {}

 protected:
  Status Post(size_t round, int, Slot* slot) override {
    const Library& mpi = channel_.library();
    const Cursor stretch = stretches_[round];
    char* const data = is_root() ? slot->Gather(source_, stretch) : slot->Await(target_, stretch);
    return mpi.Check(mpi.Ibcast(data, static_cast<int>(stretch.end - stretch.at), mpi.BYTE, root_,
                                channel_.comm(), slot->AddRequest()),
                     "MPI_Ibcast");
  }

  void Finish(size_t round, int, Slot*) override {
    if (!is_root()) return;
    const Cursor stretch = stretches_[round];
    Copy(source_, stretch.at, target_, stretch.at, stretch.end - stretch.at);
  }

 private:
  bool is_root() const { return channel_.me() == root_; }

  const Channel& channel_;
  const int root_;
  const std::vector<Cursor> stretches_;
  const Flat source_;
  const Flat target_;
};

class Barrier final : public Rounds {
 public:
  explicit Barrier(const Context& context)
      : Rounds(context.slots, 1, 1), channel_(*context.channel) {}

 protected:
  Status Post(size_t, int, Slot* slot) override {
    const Library& mpi = channel_.library();
    return mpi.Check(mpi.Ibarrier(channel_.comm(), slot->AddRequest()), "MPI_Ibarrier");
  }
  void Finish(size_t, int, Slot*) override {}

 private:
  const Channel& channel_;
};

}  // namespace

std::unique_ptr<Work> LibraryAllreduce(const Context& context, const Batch& batch) {
  return std::make_unique<Allreduce>(context, batch, Stretches(batch, context.chunk));
}

std::unique_ptr<Work> LibraryBroadcast(const Context& context, const Batch& batch) {
  return std::make_unique<Broadcast>(context, batch, Stretches(batch, context.chunk));
}

std::unique_ptr<Work> LibraryBarrier(const Context& context) {
  return std::make_unique<Barrier>(context);
}

}  // namespace hvdlite::comm::mpi
