// The numbers of hvdlite.h, which includes nothing of the core, are the core's numbers.
#include "api/hvdlite.h"
#include "base/dtype.h"
#include "base/ops.h"
#include "base/status.h"

namespace {

using hvdlite::Cause;
using hvdlite::DType;
using hvdlite::OpKind;
using hvdlite::ReduceOp;
using hvdlite::Result;
using hvdlite::StatusCode;

#define HVDLITE_SAME(ours, theirs) static_assert(static_cast<int>(ours) == (theirs))
HVDLITE_SAME(StatusCode::kDuplicateName, HVDLITE_DUPLICATE_NAME);
HVDLITE_SAME(StatusCode::kInternal, HVDLITE_INTERNAL);
HVDLITE_SAME(StatusCode::kUnsupported, HVDLITE_UNSUPPORTED);
HVDLITE_SAME(StatusCode::kIo, HVDLITE_IO);
HVDLITE_SAME(StatusCode::kTimeout, HVDLITE_TIMEOUT);
HVDLITE_SAME(StatusCode::kShutDown, HVDLITE_SHUT_DOWN);
HVDLITE_SAME(StatusCode::kPeerLost, HVDLITE_PEER_LOST);
HVDLITE_SAME(StatusCode::kMismatch, HVDLITE_MISMATCH);
HVDLITE_SAME(StatusCode::kNotInitialized, HVDLITE_NOT_INITIALIZED);
HVDLITE_SAME(StatusCode::kInvalidArgument, HVDLITE_INVALID_ARGUMENT);
HVDLITE_SAME(Cause::kUnknown, HVDLITE_CAUSE_UNKNOWN);
HVDLITE_SAME(Cause::kDied, HVDLITE_CAUSE_DIED);
HVDLITE_SAME(Cause::kClosed, HVDLITE_CAUSE_CLOSED);
HVDLITE_SAME(Cause::kSilent, HVDLITE_CAUSE_SILENT);
HVDLITE_SAME(Cause::kNetwork, HVDLITE_CAUSE_NETWORK);
HVDLITE_SAME(Cause::kDamaged, HVDLITE_CAUSE_DAMAGED);
HVDLITE_SAME(Cause::kFailed, HVDLITE_CAUSE_FAILED);
HVDLITE_SAME(Cause::kEnded, HVDLITE_CAUSE_ENDED);
#define HVDLITE_OP(enumerator, upper, ...) HVDLITE_SAME(OpKind::k##enumerator, HVDLITE_##upper);
#define HVDLITE_RESULT(enumerator, upper, ...) \
  HVDLITE_SAME(Result::k##enumerator, HVDLITE_RESULT_##upper);
#include "base/ops.def"
HVDLITE_SAME(ReduceOp::kAverage, HVDLITE_AVERAGE);
HVDLITE_SAME(ReduceOp::kSum, HVDLITE_SUM);
HVDLITE_SAME(ReduceOp::kAdasum, HVDLITE_ADASUM);
HVDLITE_SAME(ReduceOp::kMin, HVDLITE_MIN);
HVDLITE_SAME(ReduceOp::kMax, HVDLITE_MAX);
HVDLITE_SAME(ReduceOp::kProduct, HVDLITE_PRODUCT);
HVDLITE_SAME(hvdlite::kReduceOpCount - 1, HVDLITE_PRODUCT);
HVDLITE_SAME(DType::kBool, HVDLITE_BOOL);
HVDLITE_SAME(DType::kUInt8, HVDLITE_UINT8);
HVDLITE_SAME(DType::kInt8, HVDLITE_INT8);
HVDLITE_SAME(DType::kUInt16, HVDLITE_UINT16);
HVDLITE_SAME(DType::kInt16, HVDLITE_INT16);
HVDLITE_SAME(DType::kUInt32, HVDLITE_UINT32);
HVDLITE_SAME(DType::kInt32, HVDLITE_INT32);
HVDLITE_SAME(DType::kUInt64, HVDLITE_UINT64);
HVDLITE_SAME(DType::kInt64, HVDLITE_INT64);
HVDLITE_SAME(DType::kFloat16, HVDLITE_FLOAT16);
HVDLITE_SAME(DType::kBFloat16, HVDLITE_BFLOAT16);
HVDLITE_SAME(DType::kFloat32, HVDLITE_FLOAT32);
HVDLITE_SAME(DType::kFloat64, HVDLITE_FLOAT64);
HVDLITE_SAME(hvdlite::kDTypeCount - 1, HVDLITE_FLOAT64);
#undef HVDLITE_SAME

bool IsKind(int32_t kind) {
  return kind >= 0 && kind < hvdlite::kOpKindCount;
}
bool IsDType(int32_t dtype) {
  return dtype >= 0 && dtype < hvdlite::kDTypeCount;
}

}  // namespace

// Names are string literals, so a view of them ends with a NUL.
const char* hvdlite_operation_name(int32_t kind) {
  return IsKind(kind) ? Name(static_cast<OpKind>(kind)).data() : nullptr;
}
int32_t hvdlite_operation_result(int32_t kind) {
  return static_cast<int32_t>(IsKind(kind) ? ResultOf(static_cast<OpKind>(kind)) : Result::kNone);
}
const char* hvdlite_dtype_name(int32_t dtype) {
  return IsDType(dtype) ? Name(static_cast<DType>(dtype)).data() : nullptr;
}
int64_t hvdlite_dtype_size(int32_t dtype) {
  return IsDType(dtype) ? static_cast<int64_t>(SizeOf(static_cast<DType>(dtype))) : 0;
}
