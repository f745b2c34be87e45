// Reduction: a batch's arithmetic over stretches of Flats. It calls the kernels for each tensor's
// part of a stretch.
//
// Offsets are bytes and multiples of the element size. `in` and `out` have the same layout and may
// be the same memory.
#pragma once

#include <cstddef>
#include <vector>

#include "comm/batch.h"
#include "comm/flat.h"

namespace hvdlite::comm {

class Reduction {
 public:
  // For an allreduce: both Flats are the pieces one after another.
  explicit Reduction(const Batch& batch);
  Reduction(const Batch& batch, Flat in, Flat out);

  const Flat& in() const { return in_; }
  const Flat& out() const { return out_; }
  size_t element() const { return element_; }
  bool prescaled() const { return spec_.prescale != 1.0; }

  // out = prescale * in
  void Load(size_t begin, size_t end) const;
  // out = finish(out)
  void Finish(size_t begin, size_t end) const;
  // out = finish(combine of all contributions in member order). contributions[i] is member i's
  // stretch from `begin` on; the entry of `me` is ignored: its contribution is `in`.
  void Reduce(int me, const std::vector<const char*>& contributions, size_t begin,
              size_t end) const;

 private:
  int64_t Count(size_t bytes) const { return static_cast<int64_t>(bytes / element_); }

  kernels::ReduceSpec spec_;
  size_t element_;
  Flat in_;
  Flat out_;
  mutable std::vector<const void*> sources_;  // of one Reduce() call; kept to save the allocation
};

}  // namespace hvdlite::comm
