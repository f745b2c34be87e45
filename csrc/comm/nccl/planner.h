// Planner: makes the Plan of one batch, once the place of its buffer is known. Borrows context and
// batch.
#pragma once

#include <array>
#include <cstddef>
#include <numeric>
#include <vector>

#include "comm/nccl/plan.h"

namespace hvdlite::comm::nccl {

// Rounds up to 16, so that kernels can move 16 bytes at a time.
constexpr size_t Aligned(size_t bytes) {
  constexpr size_t alignment = 16;
  return (bytes + alignment - 1) / alignment * alignment;
}

inline const char* At(const void* memory, size_t offset) {
  return static_cast<const char*>(memory) + offset;
}
inline char* At(void* memory, size_t offset) {
  return static_cast<char*>(memory) + offset;
}

// The kernels' part of a reduction: scaling before and after NCCL.
struct Steps {
  explicit Steps(const Batch& batch);
  kernels::Scaling before;
  kernels::Scaling after;
  bool changes_before = false;
  bool changes_after = false;
};

class Planner {
 public:
  // Requires Can().
  Planner(const Context& context, const Batch& batch);

  LayoutKind way() const { return way_; }
  // The bytes of memory that Make() needs: 0 if none.
  size_t BufferBytes() const;
  // `buffer`: BufferBytes() bytes, aligned to 16.
  Plan Make(char* buffer) &&;

 private:
  using What = Call::What;
  // The rounds of a Grid follow one another. Everything else is in the first round.
  enum Step : uint8_t { kOnce, kInside, kBetween, kInsideAgain };
  static constexpr std::array kAmong = {Among::kAll, Among::kHost, Among::kPlace, Among::kHost};

  size_t members() const { return static_cast<size_t>(context_.size); }
  size_t me() const { return static_cast<size_t>(context_.me); }
  size_t Bytes(int64_t count) const { return static_cast<size_t>(count) * element_; }

  // These add work to the plan; they add nothing for no bytes. Sizes are in bytes, for AllGather
  // and ReduceScatter each member's.
  void Before(const void* from, void* to, size_t bytes);
  void After(const void* from, void* to, size_t bytes);
  void Do(What what, const void* from, void* to, size_t bytes, int peer = 0) {
    Do(kOnce, what, from, to, bytes, peer);
  }
  void Do(Step step, What what, const void* from, void* to, size_t bytes, int peer = 0);
  kernels::Move MoveOf(const void* from, void* to, size_t bytes) const;

  LayoutKind Choose() const;

  // plan_grid.cc
  void Allreduce(const void* from, void* to, size_t bytes);
  // Rounds `bytes` up to a number that divides evenly among the grid's places.
  size_t Shared(size_t bytes) const;

  // plan_packed.cc. A buffer of gathered or scattered tensors has a part for each member, which
  // holds the pieces one after another.
  void PackedAllreduce();
  void PackedBroadcast();
  void PackedAllgather(bool padded);
  void PackedReducescatter(bool padded);
  size_t PartBegin(int member, bool padded) const {
    if (padded) return static_cast<size_t>(member) * largest_;
    return std::accumulate(parts_.begin(), parts_.begin() + member, size_t{0});
  }
  // Calls visit(member, piece, place of the share in the buffer, bytes of the share, offset of the
  // share in the tensor of all shares).
  template <typename Visit>
  void ForEachShare(bool padded, Visit visit) const {
    for (int m = 0; m < context_.size; ++m) {
      char* place = buffer_ + PartBegin(m, padded);
      for (const Piece* piece : pieces_) {
        const auto& counts = piece->counts;
        const size_t bytes = Bytes(counts[static_cast<size_t>(m)]);
        const size_t offset =
            Bytes(std::accumulate(counts.begin(), counts.begin() + m, int64_t{0}));
        visit(m, *piece, place, bytes, offset);
        place += Aligned(bytes);
      }
    }
  }

  // plan_direct.cc
  void DirectAllreduce();
  void DirectBroadcast();
  void DirectAllgather();
  void DirectReducescatter();
  void DirectAlltoall();
  // Chooses NCCL's operation. Returns whether anything is left to do afterwards.
  bool DirectReduction();

  const Context& context_;
  const Batch& batch_;
  const size_t element_;
  const Steps steps_;
  const bool nccl_averages_;
  RedOp op_;
  std::vector<const Piece*> pieces_;  // pieces that have elements on some member
  std::vector<size_t> parts_;  // gathered or scattered: bytes of each member's part of a buffer
  size_t largest_ = 0;
  LayoutKind way_;
  char* buffer_ = nullptr;
  std::array<std::vector<Call>, kAmong.size()> calls_;
  Plan plan_;
};

}  // namespace hvdlite::comm::nccl
