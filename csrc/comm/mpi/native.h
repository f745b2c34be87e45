// What MPI sums as hvdlite promises it, and by which handles.
#pragma once

#include "base/dtype.h"
#include "base/ops.h"
#include "comm/mpi/library.h"

namespace hvdlite::comm::mpi {

// Not: 16-bit floats, of which MPI knows nothing everywhere, and which would be rounded at each
// step; bool, of which any byte but 0 is true here; the least and the greatest of floats, where a
// NaN has to win.
constexpr bool IsNative(DType dtype, ReduceOp op) {
  if (dtype == DType::kBool || dtype == DType::kFloat16 || dtype == DType::kBFloat16) return false;
  if (op == ReduceOp::kSum || op == ReduceOp::kProduct) return true;
  return (op == ReduceOp::kMin || op == ReduceOp::kMax) && !IsFloating(dtype);
}

// Of what IsNative().
inline Handle TypeOf(const Library& mpi, DType dtype) {
  switch (dtype) {
    case DType::kInt8: return mpi.INT8_T;
    case DType::kUInt8: return mpi.UINT8_T;
    case DType::kInt16: return mpi.INT16_T;
    case DType::kUInt16: return mpi.UINT16_T;
    case DType::kInt32: return mpi.INT32_T;
    case DType::kUInt32: return mpi.UINT32_T;
    case DType::kInt64: return mpi.INT64_T;
    case DType::kUInt64: return mpi.UINT64_T;
    case DType::kFloat32: return mpi.FLOAT;
    default: return mpi.DOUBLE;
  }
}

inline Handle OperationOf(const Library& mpi, ReduceOp op) {
  switch (op) {
    case ReduceOp::kProduct: return mpi.PROD;
    case ReduceOp::kMin: return mpi.MIN;
    case ReduceOp::kMax: return mpi.MAX;
    default: return mpi.SUM;
  }
}

}  // namespace hvdlite::comm::mpi
