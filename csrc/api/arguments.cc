#include "api/arguments.h"

#include <cstdio>

#include "engine/shapes.h"

namespace hvdlite::api {
namespace {

using engine::Request;

Status Wrong(const Request& request, const std::string& what) {
  return Status::InvalidArgument(std::string(Name(request.kind)) + ": " + what);
}

Status CheckReduction(const Request& request) {
  if (request.dtype == DType::kBool && (request.prescale != 1.0 || request.postscale != 1.0)) {
    return Wrong(request, "a bool tensor cannot be scaled; cast it to a number first");
  }
  if (request.op == ReduceOp::kAdasum && !Has(request.kind, kAdasum)) {
    return Wrong(request, "op Adasum is not possible; use Average, Sum, Min, Max or Product");
  }
  if (request.op == ReduceOp::kAdasum && !IsFloating(request.dtype)) {
    return Wrong(request,
                 "Adasum needs a floating-point tensor, not " + std::string(Name(request.dtype)));
  }
  return Status::Ok();
}

Status CheckAlltoall(Request* request, int members) {
  const int64_t rows = request->shape[0];
  if (request->splits.empty()) {
    if (rows % members != 0) {
      return Wrong(*request, "without splits the first dimension must be divisible by the " +
                                 std::to_string(members) +
                                 " members of the process set, but it is " + std::to_string(rows));
    }
    request->splits.assign(static_cast<size_t>(members), rows / members);
    return Status::Ok();
  }
  if (request->splits.size() != static_cast<size_t>(members)) {
    return Wrong(*request, "splits must have one entry for each of the " + std::to_string(members) +
                               " members of the process set, not " +
                               std::to_string(request->splits.size()));
  }
  int64_t left = rows;
  for (int64_t split : request->splits) {
    if (split < 0)
      return Wrong(*request, "splits must not be negative, but are " + ToString(request->splits));
    left = split > left ? -1 : left - split;
    if (left >= 0) continue;
    return Wrong(*request, "splits " + ToString(request->splits) + " add up to more than the " +
                               std::to_string(rows) + " rows that the tensor has");
  }
  return Status::Ok();
}

}  // namespace

Status CheckOutput(const Request& request, const TensorView& output, int members, int me) {
  if (output.data == nullptr || !HasTensor(request.kind)) return Status::Ok();
  // Without: the ranks have to agree first, see engine/execute/prepare.cc.
  const std::optional<Shape> known = engine::KnownResult(request, me, members);
  if (output.dtype == request.dtype && output.device.kind == request.device &&
      (!known || NumElements(output.shape) == NumElements(*known))) {
    return Status::Ok();
  }
  return Wrong(request,
               "the output must be a tensor " +
                   (known ? "of shape " + ToString(*known) + " and dtype " : "of dtype ") +
                   std::string(Name(request.dtype)) +
                   " on the same device as the input, not of "
                   "shape " +
                   ToString(output.shape) + " and dtype " + std::string(Name(output.dtype)) +
                   (output.device.kind == DeviceKind::kHost ? " on the CPU" : " on a GPU"));
}

Status CheckCodec(const Request& request, const Device& device, const TensorView& residual) {
  if (!request.codec.encodes()) {
    if (residual.data == nullptr) return Status::Ok();
    return Wrong(request, "a residual needs a codec");
  }
  const CodecRow& row = Of(request.codec.codec);
  if (!IsValid(request.codec)) {
    if (row.parameter.empty())
      return Wrong(request, "codec " + std::string(row.name) + " has no parameter: pass 0");
    char range[96];
    snprintf(range, sizeof(range), " must be between %.9g and %.9g, not %.9g", row.least, row.most,
             request.codec.parameter);
    return Wrong(request,
                 std::string(row.parameter) + " of codec " + std::string(row.name) + range);
  }
  if (!engine::CanEncode(request)) {
    return Wrong(request, "codec " + std::string(row.name) +
                              " needs an allreduce of float32 with op Average or Sum, not " +
                              std::string(Name(request.dtype)) + " with op " +
                              std::string(Name(request.op)));
  }
  if (residual.data == nullptr || (residual.dtype == DType::kFloat32 && residual.device == device &&
                                   NumElements(residual.shape) == NumElements(request.shape)))
    return Status::Ok();
  return Wrong(request,
               "the residual must have float32 elements on the tensor's device, as many as the "
               "tensor of shape " +
                   ToString(request.shape) + ", not shape " + ToString(residual.shape) +
                   " and dtype " + std::string(Name(residual.dtype)) +
                   (residual.device.kind == DeviceKind::kHost ? " on the CPU" : " on a GPU"));
}

Status CheckSelection(const Request& request, const kernels::Selection& memory) {
  const int64_t count = NumElements(request.shape);
  if (request.taken < 1 || request.taken > count)
    return Wrong(request, "cannot take " + std::to_string(request.taken) + " of " +
                              std::to_string(count) + " elements");
  if (!engine::CanBeSparse(request)) {
    return Wrong(request,
                 "a sparse allreduce needs fewer than 2^31 elements of float32 in host memory, op "
                 "Average or Sum, and no codec; this is a tensor of shape " +
                     ToString(request.shape) + " and dtype " + std::string(Name(request.dtype)) +
                     " with op " + std::string(Name(request.op)));
  }
  if (memory.count == count && memory.residual != nullptr && memory.new_residual != nullptr &&
      (memory.velocity == nullptr) == (memory.new_velocity == nullptr))
    return Status::Ok();
  return Wrong(request, "the memory must have as many elements as the tensor, before and after");
}

Status CheckArguments(Request* request, int members) {
  if (!engine::FitsElements(request->shape)) {
    return Wrong(*request, "a tensor of shape " + ToString(request->shape) +
                               " is larger than any machine's memory");
  }
  if (Has(request->kind, kReduces)) HVDLITE_RETURN_IF_ERROR(CheckReduction(*request));
  const bool has_rows = !request->shape.empty();
  switch (ResultOf(request->kind)) {
    case Result::kGathered:
      if (has_rows) return Status::Ok();
      return Wrong(*request,
                   "a tensor without dimensions cannot be concatenated; reshape it to [1]");
    case Result::kShared:
      return has_rows ? Status::Ok()
                      : Wrong(*request, "a tensor without dimensions cannot be scattered");
    case Result::kExchanged:
      return has_rows ? CheckAlltoall(request, members)
                      : Wrong(*request, "a tensor without dimensions cannot be split");
    default: return Status::Ok();
  }
}

}  // namespace hvdlite::api
