#include "comm/reduction.h"

#include <cstring>
#include <utility>

#include "comm/layout.h"

namespace hvdlite::comm {

Reduction::Reduction(const Batch& batch) : Reduction(batch, Inputs(batch), Outputs(batch)) {}

Reduction::Reduction(const Batch& batch, Flat in, Flat out)
    : spec_(batch.reduce), element_(SizeOf(batch.dtype)), in_(std::move(in)), out_(std::move(out)) {
  spec_.dtype = batch.dtype;
}

void Reduction::Load(size_t begin, size_t end) const {
  out_.Walk(begin, end, [&](char* out, size_t at, size_t bytes) {
    size_t reach = 0;
    const char* in = in_.At(at, &reach);  // the same layout, so it reaches as far as `out`
    if (in != out) std::memcpy(out, in, bytes);
    if (prescaled()) kernels::Scale(spec_.dtype, out, Count(bytes), spec_.prescale);
  });
}

void Reduction::Finish(size_t begin, size_t end) const {
  if (spec_.divisor == 1.0 && spec_.postscale == 1.0) return;
  out_.Walk(begin, end,
            [&](char* out, size_t, size_t bytes) { kernels::Finish(spec_, out, Count(bytes)); });
}

void Reduction::Reduce(int me, const std::vector<const char*>& contributions, size_t begin,
                       size_t end) const {
  sources_.resize(contributions.size());
  out_.Walk(begin, end, [&](char* out, size_t at, size_t bytes) {
    size_t reach = 0;
    for (size_t i = 0; i < contributions.size(); ++i) {
      const bool mine = static_cast<int>(i) == me;
      sources_[i] = mine ? in_.At(at, &reach) : contributions[i] + (at - begin);
    }
    kernels::Reduce(spec_, out, nullptr, sources_.data(), static_cast<int>(sources_.size()),
                    Count(bytes));
  });
}

}  // namespace hvdlite::comm
