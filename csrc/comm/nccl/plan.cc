#include "comm/nccl/plan.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "comm/nccl/planner.h"

namespace hvdlite::comm::nccl {

namespace {

// Gaps of up to this size cost less than more calls.
constexpr size_t kCheapGaps = 256 << 10;

// NCCL has no bool, so logic is done on bytes that are 0 or 1.
DataType TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8: return kUint8;
    case DType::kInt8: return kInt8;
    case DType::kUInt32: return kUint32;
    case DType::kInt32: return kInt32;
    case DType::kUInt64: return kUint64;
    case DType::kInt64: return kInt64;
    case DType::kFloat16: return kFloat16;
    case DType::kBFloat16: return kBfloat16;
    case DType::kFloat32: return kFloat32;
    case DType::kFloat64: return kFloat64;
    case DType::kUInt16:
    case DType::kInt16: break;  // Can() refuses it
  }
  return kUint8;
}

RedOp OpOf(const kernels::ReduceSpec& spec) {
  const bool logic = spec.dtype == DType::kBool;
  switch (spec.op) {
    case ReduceOp::kMin: return kMin;
    case ReduceOp::kMax: return kMax;
    case ReduceOp::kProduct: return logic ? kMin : kProd;
    default: return logic ? kMax : kSum;
  }
}

// Whether NCCL divides, which saves a kernel. It does not for integers, which NCCL would round
// differently. NCCL multiplies each contribution by the reciprocal, and 16 bits hold that exactly
// only for a power of two.
bool NcclAverages(const Batch& batch, int size) {
  const bool sums = batch.reduce.op == ReduceOp::kSum || batch.reduce.op == ReduceOp::kAverage;
  if (!Has(batch.kind, kReduces) || !IsFloating(batch.dtype) || !sums) return false;
  if (SizeOf(batch.dtype) == 2 && !std::has_single_bit(static_cast<unsigned>(size))) return false;
  return size > 1 && batch.reduce.divisor == size;
}

bool HasElements(const Piece& piece) {
  return piece.count != 0 ||
         std::any_of(piece.counts.begin(), piece.counts.end(), [](int64_t n) { return n != 0; });
}

}  // namespace

Steps::Steps(const Batch& batch) {
  const kernels::ReduceSpec& spec = batch.reduce;
  if (!Has(batch.kind, kReduces)) {
    before.dtype = after.dtype = DType::kUInt8;
    return;
  }
  const bool logic = spec.dtype == DType::kBool;  // never scaled, but made 0 or 1
  before = {spec.dtype, logic ? 1.0 : spec.prescale, false, 1.0};
  after = {spec.dtype, logic ? 1.0 : spec.divisor, true, logic ? 1.0 : spec.postscale};
  changes_before = logic || spec.prescale != 1.0;
  changes_after = !logic && (spec.divisor != 1.0 || spec.postscale != 1.0);
}

Planner::Planner(const Context& context, const Batch& batch)
    : context_(context),
      batch_(batch),
      element_(SizeOf(batch.dtype)),
      steps_(batch),
      nccl_averages_(NcclAverages(batch, context.size)),
      op_(OpOf(batch.reduce)) {
  for (const Piece& piece : batch.pieces) {
    if (HasElements(piece)) pieces_.push_back(&piece);
  }
  if (batch.kind == OpKind::kAllgather || batch.kind == OpKind::kReducescatter) {
    parts_.assign(members(), 0);
    for (const Piece* piece : pieces_) {
      for (size_t m = 0; m < members(); ++m) parts_[m] += Aligned(Bytes(piece->counts[m]));
    }
    largest_ = *std::max_element(parts_.begin(), parts_.end());
  }
  way_ = Choose();
}

LayoutKind Planner::Choose() const {
  if (pieces_.empty()) return LayoutKind::kNothing;
  if (!context_.kernels || batch_.kind == OpKind::kAlltoall) return LayoutKind::kDirect;
  const bool scattered = batch_.kind == OpKind::kReducescatter;
  // An allreduce is scaled on its way to the output. A reducescatter's output is too small for
  // that.
  if (pieces_.size() == 1 && !(scattered && steps_.changes_before)) return LayoutKind::kDirect;
  if (!scattered && batch_.kind != OpKind::kAllgather) return LayoutKind::kPacked;
  const size_t tight = PartBegin(context_.size, false);
  const size_t padded = PartBegin(context_.size, true);
  return padded - tight <= std::max(tight / 4, kCheapGaps) ? LayoutKind::kPadded
                                                           : LayoutKind::kPacked;
}

size_t Planner::BufferBytes() const {
  if (way_ == LayoutKind::kNothing || way_ == LayoutKind::kDirect) return 0;
  if (way_ == LayoutKind::kPadded) return PartBegin(context_.size, true);
  if (batch_.kind == OpKind::kAllgather || batch_.kind == OpKind::kReducescatter)
    return PartBegin(context_.size, false);
  size_t bytes = 0;
  for (const Piece* piece : pieces_) bytes += Aligned(Bytes(piece->count));
  return batch_.kind == OpKind::kAllreduce ? Shared(bytes) : bytes;
}

Plan Planner::Make(char* buffer) && {
  buffer_ = buffer;
  plan_.scale_before = steps_.before;
  plan_.scale_after = steps_.after;
  const bool packed = way_ != LayoutKind::kDirect;
  const bool padded = way_ == LayoutKind::kPadded;
  if (way_ == LayoutKind::kNothing) return std::move(plan_);
  switch (batch_.kind) {
    case OpKind::kAllreduce: packed ? PackedAllreduce() : DirectAllreduce(); break;
    case OpKind::kBroadcast: packed ? PackedBroadcast() : DirectBroadcast(); break;
    case OpKind::kAllgather: packed ? PackedAllgather(padded) : DirectAllgather(); break;
    case OpKind::kReducescatter:
      packed ? PackedReducescatter(padded) : DirectReducescatter();
      break;
    case OpKind::kAlltoall: DirectAlltoall(); break;
    default: break;
  }
  for (size_t step = 0; step < kAmong.size(); ++step) {
    if (!calls_[step].empty()) plan_.rounds.push_back({kAmong[step], std::move(calls_[step])});
  }
  return std::move(plan_);
}

// The moves of a reduction count elements; all others count bytes.
kernels::Move Planner::MoveOf(const void* from, void* to, size_t bytes) const {
  return {from, to, static_cast<int64_t>(Has(batch_.kind, kReduces) ? bytes / element_ : bytes)};
}

void Planner::Before(const void* from, void* to, size_t bytes) {
  if (bytes > 0) plan_.before.push_back(MoveOf(from, to, bytes));
}

void Planner::After(const void* from, void* to, size_t bytes) {
  if (bytes > 0) plan_.after.push_back(MoveOf(from, to, bytes));
}

void Planner::Do(Step step, What what, const void* from, void* to, size_t bytes, int peer) {
  if (bytes == 0) return;
  if (Has(batch_.kind, kReduces)) {
    calls_[step].push_back({what, from, to, bytes / element_, TypeOf(batch_.dtype), op_, peer});
  } else {
    calls_[step].push_back({what, from, to, bytes, kUint8, kSum, peer});
  }
}

bool Can(const Context& context, const Batch& batch, std::string* why) {
  const auto no = [&](std::string reason) {
    *why = std::move(reason);
    return false;
  };
  if (batch.kind == OpKind::kBarrier) return no("a barrier has no tensors");
  if (!Has(batch.kind, kReduces)) return true;
  if (batch.adasum && !context.kernels)
    return no("Adasum needs kernels, and some member's device runs none of ours");
  if (batch.dtype == DType::kInt16 || batch.dtype == DType::kUInt16) {
    return no("NCCL has no " + std::string(Name(batch.dtype)));
  }
  if (context.kernels) return true;
  const Steps steps(batch);
  const bool nccl_divides = NcclAverages(batch, context.size) && batch.reduce.postscale == 1.0;
  if (steps.changes_before || (steps.changes_after && !nccl_divides)) {
    return no(
        "scaling, and logic on bool, need kernels, and some member's device runs none of ours");
  }
  return true;
}

std::string ExplainLayout(const Context& context, const Batch& batch) {
  constexpr std::string_view names[] = {"nothing to do", "directly", "through one buffer",
                                        "through one padded buffer"};
  std::string why(names[static_cast<int>(Planner(context, batch).way())]);
  why += ", " + std::to_string(batch.pieces.size()) +
         (batch.pieces.size() == 1 ? " tensor" : " tensors") + " among " +
         std::to_string(context.size) + " members";
  if (context.grid.used && batch.kind == OpKind::kAllreduce) why += ", " + context.grid.why;
  if (!context.kernels) why += ", without kernels of our own";
  return why;
}

}  // namespace hvdlite::comm::nccl
