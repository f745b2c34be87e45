#include "comm/shm/allreduce.h"

#include <cstring>

#include "comm/shm/pipeline.h"
#include "comm/shm/stream.h"

namespace hvdlite::comm {
namespace {

// Pointers to one element of every member, for kernels::Reduce. Small sets, which is nearly all,
// need no allocation.
class Sources {
 public:
  explicit Sources(int n) : n_(n), many_(n > kFew ? static_cast<size_t>(n) : 0) {}
  const void*& operator[](int i) { return data()[i]; }
  const void** data() { return n_ > kFew ? many_.data() : few_; }

 private:
  static constexpr int kFew = 16;
  const int n_;
  const void* few_[kFew];
  std::vector<const void*> many_;
};

class Exchange final : public Pipeline {
 public:
  Exchange(ShmRegion* region, const Batch& batch)
      : Pipeline(region, 1, /*has_reduction=*/false),
        batch_(batch),
        stream_(batch, [](const Piece& p) { return p.count; }),
        sources_(region->members()) {}

 private:
  void CopyIn(uint64_t, char* slot) override {
    stream_.ForEach(0, stream_.total(), [&](size_t i, uint64_t, uint64_t at, uint64_t bytes) {
      memcpy(slot + at, batch_.pieces[i].input, bytes);
    });
  }
  void CopyOut(uint64_t step) override {
    stream_.ForEach(0, stream_.total(), [&](size_t i, uint64_t, uint64_t at, uint64_t) {
      const Piece& piece = batch_.pieces[i];
      for (int m = 0; m < region().members(); ++m) {
        sources_[m] = m == region().me() ? piece.input : Slot(m, step) + at;
      }
      kernels::Reduce(batch_.reduce, piece.output, nullptr, sources_.data(), region().members(),
                      piece.count);
    });
  }

  const Batch& batch_;
  const PieceStream stream_;
  Sources sources_;
};

class Shares final : public Pipeline {
 public:
  Shares(ShmRegion* region, const Batch& batch, PieceStream stream)
      : Pipeline(region, (stream.total() + region->chunk_bytes() - 1) / region->chunk_bytes(),
                 /*has_reduction=*/true),
        batch_(batch),
        stream_(std::move(stream)),
        size_of_(SizeOf(batch.dtype)),
        sources_(region->members()) {}

 private:
  struct Range {
    uint64_t begin, end;  // within the stream
  };
  Range Chunk(uint64_t step) const {
    const uint64_t begin = step * region().chunk_bytes();
    return {begin, std::min(begin + region().chunk_bytes(), stream_.total())};
  }
  // The part of a chunk that `member` reduces: whole cache lines, as equal as they come.
  Range Share(uint64_t step, int member) const {
    const Range chunk = Chunk(step);
    const uint64_t lines =
        (chunk.end - chunk.begin + PieceStream::kAlign - 1) / PieceStream::kAlign;
    const uint64_t n = static_cast<uint64_t>(region().members());
    const auto edge = [&](uint64_t m) {
      return std::min(chunk.begin + lines * m / n * PieceStream::kAlign, chunk.end);
    };
    return {edge(static_cast<uint64_t>(member)), edge(static_cast<uint64_t>(member) + 1)};
  }

  void CopyIn(uint64_t step, char* slot) override {
    const Range chunk = Chunk(step);
    const Range mine = Share(step, region().me());
    // My own share is reduced straight from my tensors, so no member needs it in the slot.
    const auto copy = [&](uint64_t begin, uint64_t end) {
      stream_.ForEach(begin, end, [&](size_t i, uint64_t offset, uint64_t at, uint64_t bytes) {
        memcpy(slot + (begin - chunk.begin) + at,
               static_cast<const char*>(batch_.pieces[i].input) + offset, bytes);
      });
    };
    copy(chunk.begin, mine.begin);
    copy(mine.end, chunk.end);
  }

  void Reduce(uint64_t step) override {
    const Range chunk = Chunk(step);
    const Range mine = Share(step, region().me());
    stream_.ForEach(
        mine.begin, mine.end, [&](size_t i, uint64_t offset, uint64_t at, uint64_t bytes) {
          const Piece& piece = batch_.pieces[i];
          const uint64_t in_slot = mine.begin - chunk.begin + at;
          for (int m = 0; m < region().members(); ++m) {
            sources_[m] = m == region().me() ? static_cast<const char*>(piece.input) + offset
                                             : Slot(m, step) + in_slot;
          }
          kernels::Reduce(batch_.reduce, Slot(region().me(), step) + in_slot,
                          static_cast<char*>(piece.output) + offset, sources_.data(),
                          region().members(), static_cast<int64_t>(bytes / size_of_));
        });
  }

  void CopyOut(uint64_t step) override {
    const Range chunk = Chunk(step);
    for (int m = 0; m < region().members(); ++m) {
      if (m == region().me()) continue;
      const Range share = Share(step, m);
      const char* slot = Slot(m, step) + (share.begin - chunk.begin);
      stream_.ForEach(
          share.begin, share.end, [&](size_t i, uint64_t offset, uint64_t at, uint64_t bytes) {
            memcpy(static_cast<char*>(batch_.pieces[i].output) + offset, slot + at, bytes);
          });
    }
  }

  const Batch& batch_;
  const PieceStream stream_;
  const uint64_t size_of_;
  Sources sources_;
};

}  // namespace

std::unique_ptr<Work> StartExchange(ShmRegion* region, const Batch& batch) {
  return std::make_unique<Exchange>(region, batch);
}

std::unique_ptr<Work> StartShares(ShmRegion* region, const Batch& batch) {
  return std::make_unique<Shares>(region, batch,
                                  PieceStream(batch, [](const Piece& p) { return p.count; }));
}

}  // namespace hvdlite::comm
