#include "ingraph/tensorflow_call.h"

#include <memory>

#include "ingraph/failure.h"
#include "ingraph/tensorflow_dtype.h"

namespace hvdlite::ingraph {
namespace {

struct DeleteTensor {
  void operator()(TfTensor* tensor) const { TensorFlow().DeleteTensor(tensor); }
};
using Tensor = std::unique_ptr<TfTensor, DeleteTensor>;

// An empty tensor may have no address, which would mean: allocate.
void* AddressOf(const Tensor& tensor) {
  static char nothing;
  void* const data = TensorFlow().TensorData(tensor.get());
  return data == nullptr ? &nothing : data;
}

int32_t TfCodeOf(hvdlite_code code) {
  switch (code) {
    case HVDLITE_DUPLICATE_NAME:
    case HVDLITE_INVALID_ARGUMENT: return kTfInvalidArgument;
    case HVDLITE_NOT_INITIALIZED:
    case HVDLITE_MISMATCH: return kTfFailedPrecondition;
    case HVDLITE_UNSUPPORTED: return kTfUnimplemented;
    default: return kTfUnknown;
  }
}

}  // namespace

void Call::Start() {
  const bool nothing_to_send = kernel_.kind == HVDLITE_JOIN;
  int32_t count = nothing_to_send ? 1 : TensorFlow().NumInputs(context_);
  if (hvdlite_operation_result(kernel_.kind) == HVDLITE_RESULT_EXCHANGED && !ReadSplits(--count))
    return End();
  std::vector<hvdlite_operation> operations(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) parts_.push_back({this, i, {}});
  for (int32_t i = 0; i < count; ++i) {
    hvdlite_operation& operation = operations[static_cast<size_t>(i)];
    operation.kind = kernel_.kind;
    operation.op = static_cast<int32_t>(kernel_.op);
    operation.process_set = static_cast<int32_t>(kernel_.process_set);
    operation.name = kernel_.name.c_str();
    operation.root = kernel_.root;
    operation.prescale = kernel_.prescale;
    operation.postscale = kernel_.postscale;
    operation.splits = splits_.data();
    operation.split_count = static_cast<int32_t>(splits_.size());
    if (!nothing_to_send && !(Read(i, &operation) && MakeOutput(i, &operation))) return End();
  }
  Submit(operations);
}

// The memory stays until the call has ended, because TensorFlow holds the inputs.
bool Call::Read(int32_t number, hvdlite_operation* operation) {
  const Tf& tf = TensorFlow();
  const ScopedStatus status;
  TfTensor* raw = nullptr;
  tf.GetInput(context_, number, &raw, status.get());
  // TensorFlow reuses the memory of an input only when nothing else refers to it.
  const Tensor tensor(raw);
  if (!status.ok()) {
    Fail(kTfInternal, status.message());
    return false;
  }
  std::vector<int64_t>& shape = parts_[static_cast<size_t>(number)].shape;
  for (int32_t d = 0; d < tf.NumDims(raw); ++d) shape.push_back(tf.Dim(raw, d));
  operation->input.data = AddressOf(tensor);
  operation->input.dtype = Ours(tf.TensorType(raw));
  operation->input.ndim = static_cast<int32_t>(shape.size());
  operation->input.shape = shape.data();
  return true;
}

bool Call::ReadSplits(int32_t number) {
  const Tf& tf = TensorFlow();
  const ScopedStatus status;
  TfTensor* raw = nullptr;
  tf.GetInput(context_, number, &raw, status.get());
  const Tensor tensor(raw);
  if (!status.ok() || tf.NumDims(raw) != 1) {
    Fail(kTfInvalidArgument,
         status.ok() ? "alltoall: splits must be one-dimensional" : status.message());
    return false;
  }
  const auto* values = static_cast<const int32_t*>(AddressOf(tensor));
  splits_.assign(values, values + tf.Dim(raw, 0));
  return true;
}

// For results of the input's shape. Other results are allocated when the ranks have agreed.
bool Call::MakeOutput(int32_t number, hvdlite_operation* operation) {
  if (hvdlite_operation_result(kernel_.kind) != HVDLITE_RESULT_SAME) return true;
  const std::vector<int64_t>& shape = parts_[static_cast<size_t>(number)].shape;
  const ScopedStatus status;
  int32_t forwarded = -1;
  const Tensor output(TensorFlow().ForwardInputOrAllocateOutput(
      context_, &number, 1, number, shape.data(), static_cast<int32_t>(shape.size()), &forwarded,
      status.get()));
  if (!status.ok()) {
    Fail(kTfInternal, status.message());
    return false;
  }
  operation->output = operation->input;
  operation->output.data = AddressOf(output);
  return true;
}

// From submission on, the call may end and be deleted at any moment.
void Call::Submit(const std::vector<hvdlite_operation>& operations) {
  std::vector<hvdlite_completion> completions;
  for (Part& part : parts_) completions.push_back({&PartDone, &AllocatePart, &part});
  const int32_t count = static_cast<int32_t>(operations.size());
  left_ = count;
  const hvdlite_code code =
      kernel_.grouped != 0 ? hvdlite_submit_group_then(operations.data(), count,
                                                       kernel_.name.c_str(), completions.data())
                           : hvdlite_submit_then(operations.data(), completions.data());
  if (code == HVDLITE_OK) return;
  Fail(TfCodeOf(code), DescribeFailure(code).c_str());
  End();
}

void Call::PartDone(void* context, hvdlite_code code, const char*, const hvdlite_result* result) {
  const Part& part = *static_cast<const Part*>(context);
  Call& call = *part.call;
  if (code != HVDLITE_OK) {
    call.Fail(TfCodeOf(code), DescribeFailure(code).c_str());
  } else if (result->split_count > 0) {
    call.WriteIntegers(1, result->received_splits, result->split_count, /*scalar=*/false);
  } else if (call.kernel_.kind == HVDLITE_JOIN) {
    call.WriteIntegers(0, &result->number, 1, /*scalar=*/true);
  }
  if (call.left_.fetch_sub(1) == 1) call.End();
}

void* Call::AllocatePart(void* context, const hvdlite_tensor* output) {
  const Part& part = *static_cast<const Part*>(context);
  auto bytes = static_cast<size_t>(hvdlite_dtype_size(output->dtype));
  for (int32_t d = 0; d < output->ndim; ++d) bytes *= static_cast<size_t>(output->shape[d]);
  const ScopedStatus status;
  const Tensor tensor(TensorFlow().AllocateOutput(part.call->context_, part.number,
                                                  Theirs(output->dtype), output->shape,
                                                  output->ndim, bytes, status.get()));
  return status.ok() ? AddressOf(tensor) : nullptr;
}

void Call::WriteIntegers(int32_t output, const int64_t* values, int64_t count, bool scalar) {
  const ScopedStatus status;
  const Tensor tensor(
      TensorFlow().AllocateOutput(context_, output, kTfInt32, &count, scalar ? 0 : 1,
                                  static_cast<size_t>(count) * sizeof(int32_t), status.get()));
  if (!status.ok()) return Fail(kTfInternal, status.message());
  auto* written = static_cast<int32_t*>(AddressOf(tensor));
  for (int64_t i = 0; i < count; ++i) written[i] = static_cast<int32_t>(values[i]);
}

// The first failure becomes the computation's.
void Call::Fail(int32_t code, const char* message) {
  if (failed_.exchange(true)) return;
  const ScopedStatus status(code, message);
  TensorFlow().OpKernelContext_Failure(context_, status.get());
}

void Call::End() {
  const Done done = std::move(done_);
  delete this;
  done();
}

}  // namespace hvdlite::ingraph
