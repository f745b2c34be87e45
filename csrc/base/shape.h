// Shape: the dimensions of a tensor. A 0-d tensor has no dimensions and one element.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hvdlite {

using Shape = std::vector<int64_t>;

inline int64_t NumElements(const Shape& shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

// Elements of one row: the product of all dimensions but the first. 1 for 0-d and 1-d tensors.
inline int64_t RowElements(const Shape& shape) {
  int64_t n = 1;
  for (size_t i = 1; i < shape.size(); ++i) n *= shape[i];
  return n;
}

// The number of rows that `member` gets from a reducescatter of `rows` rows. If they do not divide
// evenly, the first members get one more.
inline int64_t ShareOfRows(int64_t rows, int64_t members, int64_t member) {
  return rows / members + (member < rows % members ? 1 : 0);
}

inline std::string ToString(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace hvdlite
