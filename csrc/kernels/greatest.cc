#include "kernels/greatest.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <vector>

namespace hvdlite::kernels {
namespace {

// Below so many elements, comparisons are quicker.
constexpr int64_t kCountedFrom = 256;
constexpr int kBinBits = 9;

uint32_t UpperHalf(uint64_t element) {
  return static_cast<uint32_t>(element >> 32);
}

// Ranges of equal width, from the least to the greatest element. A greater element is in the same
// bin or in a later one.
class Bins {
 public:
  static constexpr size_t kCount = size_t{1} << kBinBits;

  Bins(const uint64_t* list, int64_t count) : least_(UpperHalf(list[0])) {
    uint32_t greatest = least_;
    for (int64_t i = 1; i < count; ++i) {
      least_ = std::min(least_, UpperHalf(list[i]));
      greatest = std::max(greatest, UpperHalf(list[i]));
    }
    shift_ = std::max(0, static_cast<int>(std::bit_width(greatest - least_)) - kBinBits);
  }

  size_t Of(uint64_t element) const { return (UpperHalf(element) - least_) >> shift_; }

 private:
  uint32_t least_;
  int shift_;
};

}  // namespace

uint64_t KeepGreatest(uint64_t* list, int64_t count, int64_t kept) {
  if (count < kCountedFrom) {
    std::nth_element(list, list + kept - 1, list + count, std::greater<>());
    return list[kept - 1];
  }
  const Bins bins(list, count);
  std::array<int64_t, Bins::kCount> sizes = {};
  for (int64_t i = 0; i < count; ++i) ++sizes[bins.Of(list[i])];
  int64_t above = 0;  // elements of later bins than the last one of which any is kept
  size_t last = Bins::kCount - 1;
  for (; above + sizes[last] < kept; --last) above += sizes[last];

  // Without branches, which would be mispredicted: each element is written to both places.
  std::vector<uint64_t> in_last(static_cast<size_t>(sizes[last]) + 1);
  size_t found_above = 0, found_in_last = 0;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t element = list[i];
    const size_t bin = bins.Of(element);
    list[found_above] = element;
    found_above += static_cast<size_t>(bin > last);
    in_last[found_in_last] = element;
    found_in_last += static_cast<size_t>(bin == last);
  }
  const auto missing = in_last.begin() + (kept - above);
  std::nth_element(in_last.begin(), missing - 1, in_last.end() - 1, std::greater<>());
  std::copy(in_last.begin(), missing, list + above);
  return *(missing - 1);
}

}  // namespace hvdlite::kernels
