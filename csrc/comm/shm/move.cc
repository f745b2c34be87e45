#include "comm/shm/move.h"

#include <cstring>
#include <numeric>

#include "comm/layout.h"
#include "comm/shm/pipeline.h"

namespace hvdlite::comm::shm {
namespace {

uint64_t StepsFor(uint64_t bytes, const Region* region) {
  return (bytes + region->chunk_bytes() - 1) / region->chunk_bytes();
}

// The longest block of any member.
size_t Longest(const Layout& layout) {
  size_t bytes = 0;
  for (const Cursor& block : BlocksOf(layout.begin)) bytes = std::max(bytes, block.end - block.at);
  return bytes;
}

// The root streams its tensors through its slots; all other members copy them out.
class Broadcast final : public Pipeline {
 public:
  Broadcast(Region* region, const Batch& batch, Flat inputs)
      : Pipeline(region, StepsFor(inputs.size(), region), false),
        root_(batch.root),
        inputs_(std::move(inputs)),
        outputs_(Outputs(batch, kLine)) {}

 private:
  bool is_root() const { return region().me() == root_; }
  Cursor ChunkOf(uint64_t step) const {
    return Chunk({0, inputs_.size()}, step, region().chunk_bytes());
  }
  void CopyIn(uint64_t step, char* slot) override {
    if (is_root()) comm::CopyOut(inputs_, ChunkOf(step), slot);
  }
  void CopyOut(uint64_t step) override {
    const Cursor chunk = ChunkOf(step);
    if (is_root()) return Copy(inputs_, chunk.at, outputs_, chunk.at, chunk.end - chunk.at);
    const char* const slot = Slot(root_, step);
    outputs_.Walk(chunk.at, chunk.end, [&](char* output, size_t at, size_t bytes) {
      memcpy(output, slot + (at - chunk.at), bytes);
    });
  }

  const int root_;
  const Flat inputs_;
  const Flat outputs_;
};

// Each member streams its part of every tensor; each copies all parts to their places.
class Allgather final : public Pipeline {
 public:
  Allgather(Region* region, const Batch& batch, Layout outputs)
      : Pipeline(region, StepsFor(Longest(outputs), region), false),
        inputs_(OwnBlock(batch, region->members(), region->me(), /*outputs=*/false, kLine)),
        outputs_(std::move(outputs)) {}

 private:
  Cursor ChunkOf(int member, uint64_t step) const {
    return Chunk(outputs_.Block(member), step, region().chunk_bytes());
  }
  void CopyIn(uint64_t step, char* slot) override {
    comm::CopyOut(inputs_.flat, ChunkOf(region().me(), step), slot);
  }
  void CopyOut(uint64_t step) override {
    for (int m = 0; m < region().members(); ++m) {
      const Cursor chunk = ChunkOf(m, step);
      if (m == region().me()) {
        Copy(inputs_.flat, chunk.at, outputs_.flat, chunk.at, chunk.end - chunk.at);
        continue;
      }
      const char* const slot = Slot(m, step);
      outputs_.flat.Walk(chunk.at, chunk.end, [&](char* output, size_t at, size_t bytes) {
        memcpy(output, slot + (at - chunk.at), bytes);
      });
    }
  }

  const Layout inputs_;  // this member's block
  const Layout outputs_;
};

// Each member streams its send buffer as it is; a receiver copies the parts addressed to it.
class Alltoall final : public Pipeline {
 public:
  Alltoall(Region* region, const Batch& batch)
      : Pipeline(region, Longest(region, batch), false),
        piece_(batch.pieces[0]),
        size_of_(SizeOf(batch.dtype)) {}

 private:
  static int64_t Sent(const Piece& piece, int n, int from) {
    const auto row = piece.counts.begin() + static_cast<long>(from) * n;
    return std::accumulate(row, row + n, int64_t{0});
  }
  static uint64_t Longest(const Region* region, const Batch& batch) {
    int64_t most = 0;
    for (int m = 0; m < region->members(); ++m)
      most = std::max(most, Sent(batch.pieces[0], region->members(), m));
    return StepsFor(static_cast<uint64_t>(most) * SizeOf(batch.dtype), region);
  }
  void CopyIn(uint64_t step, char* slot) override {
    const uint64_t begin = step * region().chunk_bytes();
    const uint64_t end =
        static_cast<uint64_t>(Sent(piece_, region().members(), region().me())) * size_of_;
    if (begin >= end) return;
    memcpy(slot, static_cast<const char*>(piece_.input) + begin,
           std::min(end - begin, uint64_t{region().chunk_bytes()}));
  }
  void CopyOut(uint64_t step) override {
    const int n = region().members();
    const int me = region().me();
    const uint64_t chunk_begin = step * region().chunk_bytes();
    const uint64_t chunk_end = chunk_begin + region().chunk_bytes();
    uint64_t received = 0;  // where the part of `from` starts in my output
    for (int from = 0; from < n; ++from) {
      const auto row = piece_.counts.begin() + static_cast<long>(from) * n;
      const uint64_t begin =
          static_cast<uint64_t>(std::accumulate(row, row + me, int64_t{0})) * size_of_;
      const uint64_t bytes = static_cast<uint64_t>(row[me]) * size_of_;
      const uint64_t from_byte = std::max(begin, chunk_begin);
      const uint64_t to_byte = std::min(begin + bytes, chunk_end);
      if (from_byte < to_byte) {
        memcpy(static_cast<char*>(piece_.output) + received + (from_byte - begin),
               from == me ? static_cast<const char*>(piece_.input) + from_byte
                          : Slot(from, step) + (from_byte - chunk_begin),
               to_byte - from_byte);
      }
      received += bytes;
    }
  }

  const Piece& piece_;
  const uint64_t size_of_;
};

// Each chunk holds an equal part of every member's rows, so that all members add at the same time.
// Step s covers bytes [s * part, (s + 1) * part) of each member's block.
class Reducescatter final : public Pipeline {
 public:
  Reducescatter(Region* region, const Batch& batch, Layout inputs, bool to_float)
      : Pipeline(region, (Longest(inputs) + Part(region) - 1) / Part(region), false),
        batch_(batch),
        to_float_(to_float),
        inputs_(std::move(inputs)),
        part_(Part(region)),
        size_of_(SizeOf(batch.dtype)),
        sources_(static_cast<size_t>(region->members())) {}

 private:
  static size_t Part(const Region* region) {
    return region->chunk_bytes() / static_cast<size_t>(region->members()) / kLine * kLine;
  }
  Cursor PartOf(int member, uint64_t step) const {
    return Chunk(inputs_.Block(member), step, part_);
  }
  void CopyIn(uint64_t step, char* slot) override {
    for (int m = 0; m < region().members(); ++m) {
      if (m != region().me())
        comm::CopyOut(inputs_.flat, PartOf(m, step), slot + static_cast<size_t>(m) * part_);
    }
  }
  void CopyOut(uint64_t step) override {
    const int me = region().me();
    const Cursor part = PartOf(me, step);
    const size_t in_slot = static_cast<size_t>(me) * part_;
    inputs_.flat.Walk(part.at, part.end, [&](const char* input, size_t at, size_t bytes) {
      for (int m = 0; m < region().members(); ++m) {
        sources_[static_cast<size_t>(m)] =
            m == me ? input : Slot(m, step) + in_slot + (at - part.at);
      }
      // A layout has a run for each member's part of each piece.
      const size_t run = inputs_.flat.RunAt(at);
      void* const output = batch_.pieces[run % batch_.pieces.size()].output;
      const size_t done = (at - inputs_.flat.BeginOf(run)) / size_of_;
      const auto count = static_cast<int64_t>(bytes / size_of_);
      if (to_float_) {
        kernels::ReduceToFloat(batch_.reduce, static_cast<float*>(output) + done, sources_.data(),
                               region().members(), count);
      } else {
        kernels::Reduce(batch_.reduce, static_cast<char*>(output) + done * size_of_, nullptr,
                        sources_.data(), region().members(), count);
      }
    });
  }

  const Batch& batch_;
  const bool to_float_;
  const Layout inputs_;
  const size_t part_;
  const size_t size_of_;
  std::vector<const void*> sources_;
};

// One empty step, which ends when every member has begun it.
class Barrier final : public Pipeline {
 public:
  explicit Barrier(Region* region) : Pipeline(region, 1, false) {}

 private:
  void CopyIn(uint64_t, char*) override {}
  void CopyOut(uint64_t) override {}
};

}  // namespace

std::unique_ptr<Work> StartBroadcast(Region* region, const Batch& batch) {
  return std::make_unique<Broadcast>(region, batch, Inputs(batch, kLine));
}

std::unique_ptr<Work> StartAllgather(Region* region, const Batch& batch) {
  return std::make_unique<Allgather>(region, batch,
                                     AllBlocks(batch, region->members(), /*outputs=*/true, kLine));
}

std::unique_ptr<Work> StartAlltoall(Region* region, const Batch& batch) {
  return std::make_unique<Alltoall>(region, batch);
}

namespace {

std::unique_ptr<Work> Scatter(Region* region, const Batch& batch, bool to_float) {
  Layout inputs = AllBlocks(batch, region->members(), /*outputs=*/false, kLine);
  return std::make_unique<Reducescatter>(region, batch, std::move(inputs), to_float);
}

}  // namespace

std::unique_ptr<Work> StartReducescatter(Region* region, const Batch& batch) {
  return Scatter(region, batch, /*to_float=*/false);
}

std::unique_ptr<Work> StartReducescatterToFloat(Region* region, const Batch& batch) {
  return Scatter(region, batch, /*to_float=*/true);
}

std::unique_ptr<Work> StartBarrier(Region* region) {
  return std::make_unique<Barrier>(region);
}

}  // namespace hvdlite::comm::shm
