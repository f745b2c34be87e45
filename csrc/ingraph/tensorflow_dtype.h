// TensorFlow's numbers of element types and ours.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace hvdlite::ingraph {

struct TfDType {
  int32_t theirs;
  DType ours;
};
constexpr TfDType kTfDTypes[] = {
    {1, DType::kFloat32},  {2, DType::kFloat64}, {3, DType::kInt32},   {4, DType::kUInt8},     {5, DType::kInt16},
    {6, DType::kInt8},     {9, DType::kInt64},   {10, DType::kBool},   {14, DType::kBFloat16}, {17, DType::kUInt16},
    {19, DType::kFloat16}, {22, DType::kUInt32}, {23, DType::kUInt64},
};
// The same as an attribute of an operation says it.
constexpr char kTfDTypeNames[] =
    "{bool, uint8, int8, uint16, int16, uint32, int32, uint64, int64, half, bfloat16, float, double}";

// -1 for what kTfDTypeNames does not let in.
constexpr int32_t Ours(int32_t theirs) {
  for (const TfDType& row : kTfDTypes) {
    if (row.theirs == theirs) return static_cast<int32_t>(row.ours);
  }
  return -1;
}

constexpr int32_t Theirs(int32_t ours) {
  for (const TfDType& row : kTfDTypes) {
    if (static_cast<int32_t>(row.ours) == ours) return row.theirs;
  }
  return 0;
}

}  // namespace hvdlite::ingraph
