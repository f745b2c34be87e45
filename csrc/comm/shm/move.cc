#include "comm/shm/move.h"

#include <cstring>
#include <numeric>

#include "comm/shm/pipeline.h"
#include "comm/shm/stream.h"

namespace hvdlite::comm {
namespace {

uint64_t StepsFor(uint64_t bytes, const ShmRegion* region) {
  return (bytes + region->chunk_bytes() - 1) / region->chunk_bytes();
}

// The root streams its tensors through its slots; everyone else copies them out.
class Broadcast final : public Pipeline {
 public:
  Broadcast(ShmRegion* region, const Batch& batch, PieceStream stream)
      : Pipeline(region, StepsFor(stream.total(), region), false),
        batch_(batch),
        stream_(std::move(stream)) {}

 private:
  bool is_root() const { return region().me() == batch_.root; }

  template <typename Visit>
  void ForChunk(uint64_t step, Visit visit) const {
    const uint64_t begin = step * region().chunk_bytes();
    stream_.ForEach(begin, std::min(begin + region().chunk_bytes(), stream_.total()), visit);
  }
  void CopyIn(uint64_t step, char* slot) override {
    if (!is_root()) return;
    ForChunk(step, [&](size_t i, uint64_t offset, uint64_t at, uint64_t bytes) {
      memcpy(slot + at, static_cast<const char*>(batch_.pieces[i].input) + offset, bytes);
    });
  }
  void CopyOut(uint64_t step) override {
    const char* slot = Slot(batch_.root, step);
    ForChunk(step, [&](size_t i, uint64_t offset, uint64_t at, uint64_t bytes) {
      const Piece& piece = batch_.pieces[i];
      if (is_root()) {
        if (piece.output == nullptr || piece.output == piece.input) return;
        memcpy(static_cast<char*>(piece.output) + offset,
               static_cast<const char*>(piece.input) + offset, bytes);
      } else {
        memcpy(static_cast<char*>(piece.output) + offset, slot + at, bytes);
      }
    });
  }

  const Batch& batch_;
  const PieceStream stream_;
};

// Each member streams its part of every tensor; each copies all parts to their places.
class Allgather final : public Pipeline {
 public:
  Allgather(ShmRegion* region, const Batch& batch, std::vector<PieceStream> streams)
      : Pipeline(region, Longest(streams, region), false),
        batch_(batch),
        streams_(std::move(streams)),
        size_of_(SizeOf(batch.dtype)) {}

  static std::vector<PieceStream> Streams(const Batch& batch, int members) {
    std::vector<PieceStream> streams;
    for (int m = 0; m < members; ++m) {
      streams.emplace_back(batch, [m](const Piece& p) { return p.counts[static_cast<size_t>(m)]; });
    }
    return streams;
  }

 private:
  static uint64_t Longest(const std::vector<PieceStream>& streams, const ShmRegion* region) {
    uint64_t bytes = 0;
    for (const PieceStream& stream : streams) bytes = std::max(bytes, stream.total());
    return StepsFor(bytes, region);
  }
  template <typename Visit>
  void ForChunk(int member, uint64_t step, Visit visit) const {
    const uint64_t begin = step * region().chunk_bytes();
    const PieceStream& stream = streams_[static_cast<size_t>(member)];
    stream.ForEach(begin, std::min(begin + region().chunk_bytes(), stream.total()), visit);
  }
  void CopyIn(uint64_t step, char* slot) override {
    ForChunk(region().me(), step, [&](size_t i, uint64_t offset, uint64_t at, uint64_t bytes) {
      memcpy(slot + at, static_cast<const char*>(batch_.pieces[i].input) + offset, bytes);
    });
  }
  void CopyOut(uint64_t step) override {
    for (int m = 0; m < region().members(); ++m) {
      const char* slot = Slot(m, step);
      ForChunk(m, step, [&](size_t i, uint64_t offset, uint64_t at, uint64_t bytes) {
        const Piece& piece = batch_.pieces[i];
        const int64_t before =
            std::accumulate(piece.counts.begin(), piece.counts.begin() + m, int64_t{0});
        char* to =
            static_cast<char*>(piece.output) + static_cast<uint64_t>(before) * size_of_ + offset;
        const char* from =
            m == region().me() ? static_cast<const char*>(piece.input) + offset : slot + at;
        if (to != from) memcpy(to, from, bytes);
      });
    }
  }

  const Batch& batch_;
  const std::vector<PieceStream> streams_;
  const uint64_t size_of_;
};

// Each member streams its send buffer as it is; a receiver copies what is addressed to it.
class Alltoall final : public Pipeline {
 public:
  Alltoall(ShmRegion* region, const Batch& batch)
      : Pipeline(region, Longest(region, batch), false),
        piece_(batch.pieces[0]),
        size_of_(SizeOf(batch.dtype)) {}

 private:
  static int64_t Sent(const Piece& piece, int n, int from) {
    const auto row = piece.counts.begin() + static_cast<long>(from) * n;
    return std::accumulate(row, row + n, int64_t{0});
  }
  static uint64_t Longest(const ShmRegion* region, const Batch& batch) {
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

// Chunks are cut so that each holds an equal part of every member's rows: all members then add at
// the same time. Step s covers bytes [s * part, (s + 1) * part) of each member's share of the
// stream.
class Reducescatter final : public Pipeline {
 public:
  Reducescatter(ShmRegion* region, const Batch& batch, std::vector<PieceStream> shares,
                bool to_float)
      : Pipeline(region, Steps(shares, region), false),
        batch_(batch),
        to_float_(to_float),
        shares_(std::move(shares)),
        part_(Part(region)),
        size_of_(SizeOf(batch.dtype)),
        sources_(static_cast<size_t>(region->members())) {}

 private:
  static uint64_t Part(const ShmRegion* region) {
    return region->chunk_bytes() / static_cast<uint64_t>(region->members()) / PieceStream::kAlign *
           PieceStream::kAlign;
  }
  static uint64_t Steps(const std::vector<PieceStream>& shares, const ShmRegion* region) {
    uint64_t bytes = 0;
    for (const PieceStream& share : shares) bytes = std::max(bytes, share.total());
    return (bytes + Part(region) - 1) / Part(region);
  }
  template <typename Visit>
  void ForPart(int member, uint64_t step, Visit visit) const {
    const PieceStream& share = shares_[static_cast<size_t>(member)];
    share.ForEach(step * part_, std::min((step + 1) * part_, share.total()), visit);
  }
  uint64_t BytesBefore(const Piece& piece, int member) const {
    return static_cast<uint64_t>(
               std::accumulate(piece.counts.begin(), piece.counts.begin() + member, int64_t{0})) *
           size_of_;
  }
  void CopyIn(uint64_t step, char* slot) override {
    for (int m = 0; m < region().members(); ++m) {
      if (m == region().me()) continue;
      ForPart(m, step, [&](size_t i, uint64_t offset, uint64_t at, uint64_t bytes) {
        const Piece& piece = batch_.pieces[i];
        memcpy(slot + static_cast<uint64_t>(m) * part_ + at,
               static_cast<const char*>(piece.input) + BytesBefore(piece, m) + offset, bytes);
      });
    }
  }
  void CopyOut(uint64_t step) override {
    const int me = region().me();
    ForPart(me, step, [&](size_t i, uint64_t offset, uint64_t at, uint64_t bytes) {
      const Piece& piece = batch_.pieces[i];
      for (int m = 0; m < region().members(); ++m) {
        sources_[static_cast<size_t>(m)] =
            m == me ? static_cast<const char*>(piece.input) + BytesBefore(piece, me) + offset
                    : Slot(m, step) + static_cast<uint64_t>(me) * part_ + at;
      }
      const auto count = static_cast<int64_t>(bytes / size_of_);
      if (to_float_) {
        kernels::ReduceToFloat(batch_.reduce, static_cast<float*>(piece.output) + offset / size_of_,
                               sources_.data(), region().members(), count);
      } else {
        kernels::Reduce(batch_.reduce, static_cast<char*>(piece.output) + offset, nullptr,
                        sources_.data(), region().members(), count);
      }
    });
  }

  const Batch& batch_;
  const bool to_float_;
  const std::vector<PieceStream> shares_;
  const uint64_t part_;
  const uint64_t size_of_;
  std::vector<const void*> sources_;
};

// One empty step: it is over when everyone has begun it.
class Barrier final : public Pipeline {
 public:
  explicit Barrier(ShmRegion* region) : Pipeline(region, 1, false) {}

 private:
  void CopyIn(uint64_t, char*) override {}
  void CopyOut(uint64_t) override {}
};

}  // namespace

std::unique_ptr<Work> StartBroadcast(ShmRegion* region, const Batch& batch) {
  return std::make_unique<Broadcast>(region, batch,
                                     PieceStream(batch, [](const Piece& p) { return p.count; }));
}

std::unique_ptr<Work> StartAllgather(ShmRegion* region, const Batch& batch) {
  return std::make_unique<Allgather>(region, batch, Allgather::Streams(batch, region->members()));
}

std::unique_ptr<Work> StartAlltoall(ShmRegion* region, const Batch& batch) {
  return std::make_unique<Alltoall>(region, batch);
}

std::unique_ptr<Work> StartReducescatter(ShmRegion* region, const Batch& batch) {
  return std::make_unique<Reducescatter>(region, batch,
                                         Allgather::Streams(batch, region->members()), false);
}

std::unique_ptr<Work> StartReducescatterToFloat(ShmRegion* region, const Batch& batch) {
  return std::make_unique<Reducescatter>(region, batch,
                                         Allgather::Streams(batch, region->members()), true);
}

std::unique_ptr<Work> StartBarrier(ShmRegion* region) {
  return std::make_unique<Barrier>(region);
}

}  // namespace hvdlite::comm
