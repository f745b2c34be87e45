#include "comm/shm/adasum.h"

#include <cstring>

#include "comm/layout.h"
#include "comm/shm/pipeline.h"
#include "comm/works.h"
#include "kernels/adasum.h"

namespace hvdlite::comm::shm {
namespace {

// The vectors being combined (the outputs of the batch), and their dot products at the current
// level.
struct State {
  const Batch* batch;
  Flat outputs;
  std::vector<kernels::AdasumDots> dots;  // per piece
  std::vector<char> scratch;              // one chunk
};

// Streams the vectors of all members. The subclass processes the partner's.
class Pass : public Pipeline {
 public:
  // `partner` is -1 for members that only take part in the steps.
  Pass(Region* region, State* state, int partner)
      : Pipeline(region,
                 (state->outputs.size() + region->chunk_bytes() - 1) / region->chunk_bytes(),
                 false),
        state_(*state),
        partner_(partner) {}

 protected:
  virtual void Meet(size_t piece, char* mine, const char* theirs, uint64_t bytes) = 0;
  State& state() { return state_; }
  bool lower() const { return region().me() < partner_; }
  DType dtype() const { return state_.batch->dtype; }

 private:
  Cursor ChunkOf(uint64_t step) const {
    return Chunk({0, state_.outputs.size()}, step, region().chunk_bytes());
  }
  void CopyIn(uint64_t step, char* slot) final {
    comm::CopyOut(state_.outputs, ChunkOf(step), slot);
  }
  void CopyOut(uint64_t step) final {
    if (partner_ < 0) return;
    const Cursor chunk = ChunkOf(step);
    const char* const slot = Slot(partner_, step);
    state_.outputs.Walk(chunk.at, chunk.end, [&](char* mine, size_t at, size_t bytes) {
      Meet(state_.outputs.RunAt(at), mine, slot + (at - chunk.at), bytes);
    });
  }

  State& state_;
  const int partner_;
};

class DotPass final : public Pass {
 public:
  DotPass(Region* region, State* state, int partner) : Pass(region, state, partner) {
    state->dots.assign(state->batch->pieces.size(), {});
  }

 private:
  void Meet(size_t piece, char* mine, const char* theirs, uint64_t bytes) override {
    const int64_t count = static_cast<int64_t>(bytes / SizeOf(dtype()));
    const kernels::AdasumDots part = lower() ? kernels::AdasumDot(dtype(), mine, theirs, count)
                                             : kernels::AdasumDot(dtype(), theirs, mine, count);
    kernels::AdasumDots& sum = state().dots[piece];
    sum.ab += part.ab;
    sum.aa += part.aa;
    sum.bb += part.bb;
  }
};

class CombinePass final : public Pass {
 public:
  using Pass::Pass;

 private:
  void Meet(size_t piece, char* mine, const char* theirs, uint64_t bytes) override {
    const int64_t count = static_cast<int64_t>(bytes / SizeOf(dtype()));
    if (lower()) {
      kernels::AdasumCombine(dtype(), mine, theirs, count, state().dots[piece]);
    } else {
      memcpy(state().scratch.data(), mine, bytes);
      memcpy(mine, theirs, bytes);
      kernels::AdasumCombine(dtype(), mine, state().scratch.data(), count, state().dots[piece]);
    }
  }
};

class FetchPass final : public Pass {
 public:
  using Pass::Pass;

 private:
  void Meet(size_t, char* mine, const char* theirs, uint64_t bytes) override {
    memcpy(mine, theirs, bytes);
  }
};

class Adasum final : public Sequence {
 public:
  Adasum(Region* region, const Batch& batch)
      : region_(region),
        tuned_(region->chunk_bytes()),
        state_{&batch, Outputs(batch, kLine), {}, {}} {
    // The dot products are summed chunk by chunk, so the size of chunks would change their bits.
    region->CutInto(region->slot_bytes());
    state_.scratch.resize(region->chunk_bytes());
    const int me = region->me();
    int power = 1;
    while (power * 2 <= region->members()) power *= 2;
    const int extras = region->members() - power;

    Then([this]() -> std::unique_ptr<Work> {
      for (const Piece& piece : state_.batch->pieces) {
        const size_t bytes = static_cast<size_t>(piece.count) * SizeOf(state_.batch->dtype);
        if (bytes > 0 && piece.output != piece.input) memcpy(piece.output, piece.input, bytes);
        kernels::Scale(state_.batch->dtype, piece.output, piece.count,
                       state_.batch->reduce.prescale);
      }
      return nullptr;
    });
    if (extras > 0) Level(region, me >= power ? me - power : (me < extras ? me + power : -1));
    for (int distance = 1; distance < power; distance *= 2)
      Level(region, me < power ? me ^ distance : -1);
    if (extras > 0) {
      Then([this, region, partner = me >= power ? me - power : -1] {
        return std::make_unique<FetchPass>(region, &state_, partner);
      });
    }
    Then([this]() -> std::unique_ptr<Work> {
      for (const Piece& piece : state_.batch->pieces) {
        kernels::Scale(state_.batch->dtype, piece.output, piece.count,
                       state_.batch->reduce.postscale);
      }
      return nullptr;
    });
  }

  ~Adasum() override { region_->CutInto(tuned_); }
  Adasum(const Adasum&) = delete;
  Adasum& operator=(const Adasum&) = delete;

 private:
  void Level(Region* region, int partner) {
    Then([this, region, partner] { return std::make_unique<DotPass>(region, &state_, partner); });
    Then([this, region, partner] {
      return std::make_unique<CombinePass>(region, &state_, partner);
    });
  }

  Region* const region_;
  const size_t tuned_;
  State state_;
};

}  // namespace

std::unique_ptr<Work> StartAdasum(Region* region, const Batch& batch) {
  return std::make_unique<Adasum>(region, batch);
}

}  // namespace hvdlite::comm::shm
