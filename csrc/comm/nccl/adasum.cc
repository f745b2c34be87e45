// adasum(a, b) = (1 - a.b / 2|a|²) a + (1 - a.b / 2|b|²) b, combined pairwise, per tensor.
//
//   halving     level s: exchange halves with the member at distance 2^s; a is the vector of the
//               lower group of 2^s members, b that of the upper one; both are spread over the group
//                 1. dot products of my part of each tensor
//                 2. their sums over the 2^(s+1) members that share a and b
//                 3. combine my part
//   doubling    the same way back with finished parts
//
// NCCL sums over all members, not over some of them. So all groups of a level sum at once, each in
// its own row of a table that is zero elsewhere. Members beyond the largest power of two send their
// vectors to another member before the first level, and get the result after the last
// (comm/hypercube.h). Between the two they add zeros.
//
// Cost: 3 log2 n calls of NCCL, 2 M (n-1)/n bytes each way, and 24 n bytes for each tensor in the
// tables.
#include "comm/nccl/adasum.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "comm/flat.h"
#include "comm/hypercube.h"
#include "comm/nccl/nccl_work.h"
#include "comm/nccl/planner.h"

namespace hvdlite::comm::nccl {

namespace {

using kernels::AdasumDots;

// Vectors are cut at multiples of 16 bytes, so that kernels can move 16 bytes at a time.
constexpr size_t kUnit = Aligned(1);

size_t Length(Cursor part) {
  return part.end - part.at;
}

// A tensor, and its place in the line of all tensors, each of which begins at a boundary.
struct Tensor {
  const Piece* piece;
  Cursor place;  // in bytes
};

std::vector<Tensor> Line(const Batch& batch) {
  std::vector<Tensor> tensors;
  size_t end = 0;
  for (const Piece& piece : batch.pieces) {
    if (piece.count == 0) continue;
    const size_t begin = Aligned(end);
    end = begin + static_cast<size_t>(piece.count) * SizeOf(batch.dtype);
    tensors.push_back({&piece, {begin, end}});
  }
  return tensors;
}

class AdasumWork final : public NcclWork {
 public:
  AdasumWork(Communicator* communicator, const Batch& batch)
      : NcclWork(communicator, batch),
        tensors_(Line(batch)),
        all_{0, tensors_.empty() ? 0 : tensors_.back().place.end},
        cube_(context().me, context().size, all_.end, kUnit) {}

 private:
  Status Begin(std::vector<Step>* rest) override {
    if (tensors_.empty()) return Status::Ok();
    HVDLITE_RETURN_IF_ERROR(Reserve());
    const auto then = [rest](Step step) { rest->push_back(std::move(step)); };
    const bool inside = cube_.host < 0;
    if (!inside) then([this] { return Exchange(cube_.host, all_, nullptr, 0); });
    if (cube_.guest >= 0) {
      then([this] { return Exchange(cube_.guest, {}, arrived_, all_.end); });
      then([this] {
        HVDLITE_RETURN_IF_ERROR(Dot(all_, /*lower=*/true, dots_));
        return Combine(all_, /*lower=*/true, dots_);
      });
    }
    for (int level = 0; level < Levels(); ++level) {
      if (!inside) {
        then([this, level] { return AddUp(level); });
        continue;
      }
      const Halving half = cube_.halvings[static_cast<size_t>(level)];
      then([this, half] { return Exchange(half.partner, half.give, arrived_, Length(half.keep)); });
      then([this, level] { return AddUp(level); });
      then([this, level, half] { return Combine(half.keep, half.lower, Row(level)); });
    }
    for (size_t level = cube_.halvings.size(); level-- > 0;) {
      const Halving half = cube_.halvings[level];
      then([this, half] {
        return Exchange(half.partner, half.keep, vectors_ + half.give.at, Length(half.give));
      });
    }
    if (cube_.guest >= 0) then([this] { return Exchange(cube_.guest, all_, nullptr, 0); });
    if (!inside) then([this] { return Exchange(cube_.host, {}, vectors_, all_.end); });
    then([this] { return Unload(); });
    return Load();
  }

  int Levels() const { return std::bit_width(static_cast<unsigned>(cube_.core)) - 1; }
  // The number of this level's groups. Each has one row in the level's table.
  int Groups(int level) const { return cube_.core >> (level + 1); }
  AdasumDots* Row(int level) const {
    return dots_ + static_cast<size_t>(context().me >> (level + 1)) * tensors_.size();
  }

  // A single tensor is combined in the place of its result.
  Status Reserve() {
    const bool packed = tensors_.size() > 1;
    const size_t room = cube_.guest >= 0         ? all_.end
                        : cube_.halvings.empty() ? 0
                                                 : Length(cube_.halvings[0].keep);
    size_t bytes = 0;
    const auto take = [&bytes](size_t wanted) {
      return std::exchange(bytes, bytes + Aligned(wanted));
    };
    const size_t vectors = take(packed ? all_.end : 0);
    const size_t arrived = take(room);
    const size_t dots =
        take(static_cast<size_t>(std::max(Groups(0), 1)) * tensors_.size() * sizeof(AdasumDots));
    const size_t sums = take(kernels::AdasumRoom(tensors_.size(), room));
    char* memory = nullptr;
    HVDLITE_RETURN_IF_ERROR(Memory(bytes, &memory));
    vectors_ = packed ? memory + vectors : static_cast<char*>(tensors_[0].piece->output);
    arrived_ = memory + arrived;
    dots_ = reinterpret_cast<AdasumDots*>(memory + dots);
    sums_ = memory + sums;
    return Status::Ok();
  }

  Status Load() {
    std::vector<kernels::Move> moves;
    for (const Tensor& tensor : tensors_) {
      moves.push_back({tensor.piece->input, vectors_ + tensor.place.at, tensor.piece->count});
    }
    return Move({batch_.dtype, batch_.reduce.prescale}, moves);
  }

  Status Unload() {
    std::vector<kernels::Move> moves;
    for (const Tensor& tensor : tensors_) {
      moves.push_back({vectors_ + tensor.place.at, tensor.piece->output, tensor.piece->count});
    }
    return Move({batch_.dtype, batch_.reduce.postscale}, moves);
  }

  // Exchanges a message each way. An empty message is not sent, which the peer knows.
  Status Exchange(int peer, Cursor give, char* to, size_t bytes) {
    std::vector<Call> calls;
    if (!give.done()) {
      calls.push_back(
          {Call::What::kSend, vectors_ + give.at, nullptr, Length(give), kUint8, kSum, peer});
    }
    if (bytes > 0) calls.push_back({Call::What::kReceive, nullptr, to, bytes, kUint8, kSum, peer});
    return Run(calls);
  }

  // The pairs of my tensors and the arrived ones within `part`. *first is the tensor of the first
  // pair.
  std::vector<kernels::Pair> Pairs(Cursor part, size_t* first) const {
    std::vector<kernels::Pair> pairs;
    for (const Tensor& tensor : tensors_) {
      const size_t begin = std::max(part.at, tensor.place.at);
      const size_t end = std::min(part.end, tensor.place.end);
      if (begin >= end) continue;
      if (pairs.empty()) *first = static_cast<size_t>(&tensor - tensors_.data());
      const auto count = static_cast<int64_t>((end - begin) / SizeOf(batch_.dtype));
      pairs.push_back({vectors_ + begin, arrived_ + (begin - part.at), count});
    }
    return pairs;
  }

  // `lower`: this member holds a, and b has arrived; otherwise the reverse.
  Status Dot(Cursor part, bool lower, AdasumDots* dots) {
    size_t first = 0;
    std::vector<kernels::Pair> pairs = Pairs(part, &first);
    for (kernels::Pair& pair : pairs) {
      // The const_cast is safe: the dot product does not write.
      if (!lower) pair = {const_cast<void*>(pair.b), pair.a, pair.elements};
    }
    return kernels::AdasumDotAll(gpu(), batch_.dtype, pairs, dots + first, sums_);
  }

  Status Combine(Cursor part, bool lower, const AdasumDots* dots) {
    size_t first = 0;
    const std::vector<kernels::Pair> pairs = Pairs(part, &first);
    return kernels::AdasumCombineAll(gpu(), batch_.dtype, pairs, dots + first, /*swapped=*/!lower);
  }

  // Writes my group's dot products into its row, and sums all rows over all members.
  Status AddUp(int level) {
    const size_t count = static_cast<size_t>(Groups(level)) * tensors_.size();
    HVDLITE_RETURN_IF_ERROR(gpu()->Zero(dots_, count * sizeof(AdasumDots)));
    if (cube_.host < 0) {
      const Halving& half = cube_.halvings[static_cast<size_t>(level)];
      HVDLITE_RETURN_IF_ERROR(Dot(half.keep, half.lower, Row(level)));
    }
    return Run({{Call::What::kAllReduce, dots_, dots_, 3 * count, kFloat64, kSum, 0}});
  }

  const std::vector<Tensor> tensors_;
  const Cursor all_;
  const Hypercube cube_;
  char* vectors_ = nullptr;  // laid out as all_ says
  char* arrived_ = nullptr;
  AdasumDots* dots_ = nullptr;  // the table
  char* sums_ = nullptr;
};

}  // namespace

std::string WhyAdasum(int members) {
  return "adasum by halves on the device, among " + std::to_string(members) + " members";
}

std::unique_ptr<Work> AdasumAllreduce(Communicator* communicator, const Batch& batch) {
  return std::make_unique<AdasumWork>(communicator, batch);
}

}  // namespace hvdlite::comm::nccl
