#include "comm/shm/allreduce.h"

#include <cstring>

#include "comm/layout.h"
#include "comm/shm/pipeline.h"
#include "comm/shm/sources.h"

namespace hvdlite::comm::shm {
namespace {

uint64_t Chunks(const Flat& tensors, const Region& region) {
  return (tensors.size() + region.chunk_bytes() - 1) / region.chunk_bytes();
}

class Exchange final : public Pipeline {
 public:
  Exchange(Region* region, const Batch& batch, Flat inputs)
      : Pipeline(region, Chunks(inputs, *region), /*has_reduction=*/false),
        batch_(batch),
        inputs_(std::move(inputs)),
        outputs_(Outputs(batch, kLine)),
        size_of_(SizeOf(batch.dtype)),
        sources_(region->members()) {}

 private:
  Cursor ChunkOf(uint64_t step) const {
    return Chunk({0, inputs_.size()}, step, region().chunk_bytes());
  }
  void CopyIn(uint64_t step, char* slot) override { comm::CopyOut(inputs_, ChunkOf(step), slot); }
  void CopyOut(uint64_t step) override {
    const Cursor chunk = ChunkOf(step);
    inputs_.Walk(chunk.at, chunk.end, [&](const char* input, size_t at, size_t bytes) {
      for (int m = 0; m < region().members(); ++m)
        sources_[m] = m == region().me() ? input : Slot(m, step) + (at - chunk.at);
      kernels::Reduce(batch_.reduce, outputs_.At(at), nullptr, sources_.data(), region().members(),
                      static_cast<int64_t>(bytes / size_of_));
    });
  }

  const Batch& batch_;
  const Flat inputs_;
  const Flat outputs_;
  const size_t size_of_;
  Sources sources_;
};

class Shares final : public Pipeline {
 public:
  Shares(Region* region, const Batch& batch, Flat inputs)
      : Pipeline(region, Chunks(inputs, *region), /*has_reduction=*/true),
        batch_(batch),
        inputs_(std::move(inputs)),
        outputs_(Outputs(batch, kLine)),
        size_of_(SizeOf(batch.dtype)),
        sources_(region->members()) {}

 private:
  Cursor ChunkOf(uint64_t step) const {
    return Chunk({0, inputs_.size()}, step, region().chunk_bytes());
  }
  // The part of a chunk that `member` reduces: whole cache lines, as equal as possible.
  Cursor ShareOf(Cursor chunk, int member) const {
    const size_t lines = (chunk.end - chunk.at + kLine - 1) / kLine;
    const auto edge = [&](int m) {
      return std::min(chunk.at + PartBegin(lines, region().members(), m) * kLine, chunk.end);
    };
    return {edge(member), edge(member + 1)};
  }

  void CopyIn(uint64_t step, char* slot) override {
    const Cursor chunk = ChunkOf(step);
    const Cursor mine = ShareOf(chunk, region().me());
    // My own share is reduced straight from my tensors, so the slot does not need it.
    comm::CopyOut(inputs_, {chunk.at, mine.at}, slot);
    comm::CopyOut(inputs_, {mine.end, chunk.end}, slot + (mine.end - chunk.at));
  }

  void Reduce(uint64_t step) override {
    const Cursor chunk = ChunkOf(step);
    const Cursor mine = ShareOf(chunk, region().me());
    inputs_.Walk(mine.at, mine.end, [&](const char* input, size_t at, size_t bytes) {
      const size_t in_slot = at - chunk.at;
      for (int m = 0; m < region().members(); ++m)
        sources_[m] = m == region().me() ? input : Slot(m, step) + in_slot;
      kernels::Reduce(batch_.reduce, Slot(region().me(), step) + in_slot, outputs_.At(at),
                      sources_.data(), region().members(), static_cast<int64_t>(bytes / size_of_));
    });
  }

  void CopyOut(uint64_t step) override {
    const Cursor chunk = ChunkOf(step);
    for (int m = 0; m < region().members(); ++m) {
      if (m == region().me()) continue;
      const Cursor share = ShareOf(chunk, m);
      const char* const slot = Slot(m, step);
      outputs_.Walk(share.at, share.end, [&](char* output, size_t at, size_t bytes) {
        memcpy(output, slot + (at - chunk.at), bytes);
      });
    }
  }

  const Batch& batch_;
  const Flat inputs_;
  const Flat outputs_;
  const size_t size_of_;
  Sources sources_;
};

}  // namespace

std::unique_ptr<Work> StartExchange(Region* region, const Batch& batch) {
  return std::make_unique<Exchange>(region, batch, Inputs(batch, kLine));
}

std::unique_ptr<Work> StartShares(Region* region, const Batch& batch) {
  return std::make_unique<Shares>(region, batch, Inputs(batch, kLine));
}

}  // namespace hvdlite::comm::shm
