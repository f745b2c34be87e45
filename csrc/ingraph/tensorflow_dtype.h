// Maps TensorFlow's numbers of element types to ours.
#pragma once

#include <cstdint>

#include "api/hvdlite.h"

namespace hvdlite::ingraph {

struct TfDType {
  int32_t theirs;
  int32_t ours;
};
constexpr TfDType kTfDTypes[] = {
    {1, HVDLITE_FLOAT32},   {2, HVDLITE_FLOAT64}, {3, HVDLITE_INT32},    {4, HVDLITE_UINT8},
    {5, HVDLITE_INT16},     {6, HVDLITE_INT8},    {9, HVDLITE_INT64},    {10, HVDLITE_BOOL},
    {14, HVDLITE_BFLOAT16}, {17, HVDLITE_UINT16}, {19, HVDLITE_FLOAT16}, {22, HVDLITE_UINT32},
    {23, HVDLITE_UINT64},
};
// The same types, as an attribute of an operation lists them.
constexpr char kTfDTypeNames[] =
    "{bool, uint8, int8, uint16, int16, uint32, int32, uint64, int64, half, bfloat16, float, "
    "double}";

// -1 for types that kTfDTypeNames excludes.
constexpr int32_t Ours(int32_t theirs) {
  for (const TfDType& row : kTfDTypes) {
    if (row.theirs == theirs) return row.ours;
  }
  return -1;
}

constexpr int32_t Theirs(int32_t ours) {
  for (const TfDType& row : kTfDTypes) {
    if (row.ours == ours) return row.theirs;
  }
  return 0;
}

}  // namespace hvdlite::ingraph
