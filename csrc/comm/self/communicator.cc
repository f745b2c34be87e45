#include "comm/self/communicator.h"

#include <cstring>
#include <numeric>

namespace hvdlite::comm::self {
namespace {

class SelfWork final : public Work {
 public:
  explicit SelfWork(const Batch& batch) : batch_(batch) {}

  Progress Advance() override {
    for (const Piece& piece : batch_.pieces) {
      const bool reduces = Has(batch_.kind, kReduces) && !batch_.adasum;
      const int64_t count = piece.counts.empty() ? piece.count
                                                 : std::accumulate(piece.counts.begin(),
                                                                   piece.counts.end(), int64_t{0});
      if (count == 0) continue;
      if (reduces) {
        kernels::Reduce(batch_.reduce, piece.output, nullptr, &piece.input, 1, count);
        continue;
      }
      if (piece.output != nullptr && piece.output != piece.input) {
        memcpy(piece.output, piece.input, static_cast<size_t>(count) * SizeOf(batch_.dtype));
      }
      if (batch_.adasum) {
        kernels::Scale(batch_.dtype, piece.output, count, batch_.reduce.prescale);
        kernels::Scale(batch_.dtype, piece.output, count, batch_.reduce.postscale);
      }
    }
    return Progress::kDone;
  }

 private:
  const Batch& batch_;
};

}  // namespace

std::unique_ptr<Work> Communicator::Start(const Batch& batch) {
  Count(Carrier::kSelf, batch.kind);
  return std::make_unique<SelfWork>(batch);
}

}  // namespace hvdlite::comm::self
