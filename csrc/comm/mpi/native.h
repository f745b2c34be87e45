// The reductions that MPI performs as hvdlite promises them, and MPI's handles for them.
#pragma once

#include "base/dtype.h"
#include "base/ops.h"
#include "comm/mpi/library.h"

namespace hvdlite::comm::mpi {

// MPI does not do the following as hvdlite promises. 16-bit floats: it has no portable type for
// them and rounds at each step. Bool: here any byte but 0 is true. Min and Max of floats: here NaN
// wins.
constexpr bool IsNative(DType dtype, ReduceOp op) {
  if (dtype == DType::kBool || dtype == DType::kFloat16 || dtype == DType::kBFloat16) return false;
  if (op == ReduceOp::kSum || op == ReduceOp::kProduct) return true;
  return (op == ReduceOp::kMin || op == ReduceOp::kMax) && !IsFloating(dtype);
}

// MPI's type for a dtype that IsNative() accepts.
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
