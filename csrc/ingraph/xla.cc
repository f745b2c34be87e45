// Collectives inside a program that XLA has compiled: one custom call for all of them, registered in JAX's XLA and in
// TensorFlow's. A call has any number of tensors, submits all of them at once and then waits for all.
//
// It blocks one of XLA's threads, of which there may be two, while XLA runs independent calls in any order: so calls of one
// program must depend on one another. For that the last operand and the last result are a token, a scalar float32, which each
// call hands on to the next (hvdlite/adapter/xla.py).
//
// Attributes: kind, op, process_set (i32), root (i64), prescale, postscale (f64), name (string), and members (array of i32; empty
// for the global set): who was in the process set when the program was compiled.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "api/hvdlite.h"
#include "base/dtype.h"
#include "base/ops.h"
#include "ingraph/failure.h"
#include "ingraph/xla_frame.h"

namespace hvdlite::ingraph {
namespace {

constexpr double kSlice = 3600.0;  // a wait ends with its operation; nobody here has anything to do before

std::atomic<int32_t>& Waiting() {
  static std::atomic<int32_t> waiting{0};
  return waiting;
}

struct Failure {
  hvdlite_code code = HVDLITE_OK;
  std::string text;
};

Failure LastFailure(hvdlite_code code) {
  return {code, DescribeFailure(code)};
}

Failure Wrong(const std::string& what) {
  return {HVDLITE_INVALID_ARGUMENT, "hvdlite.ValueError: " + what};
}

// A number that belonged to one process set when the program was compiled may belong to another one now.
bool IsTheSameSet(const ffi::Attributes& given, int32_t process_set) {
  const auto* members = static_cast<const ffi::Array*>(FindAttribute(given, "members", ffi::kArray));
  if (members == nullptr || members->size == 0) return true;
  std::vector<int32_t> now(members->size + 1);
  const int32_t count = hvdlite_process_set_ranks(process_set, now.data(), static_cast<int32_t>(now.size()));
  const auto* then = static_cast<const int32_t*>(members->data);
  return static_cast<size_t>(count) == members->size && std::equal(then, then + members->size, now.begin());
}

// ---- The call

// The shape of these results is known when all ranks have come together, and the library allocates them.
bool IsAllocatedByUs(int32_t kind) {
  return kind == static_cast<int32_t>(OpKind::kAllgather) || kind == static_cast<int32_t>(OpKind::kAlltoall);
}

std::string ShapeText(const int64_t* dims, int64_t rank) {
  std::string text = "[";
  for (int64_t i = 0; i < rank; ++i) text += (i ? ", " : "") + std::to_string(dims[i]);
  return text + "]";
}

Failure Deliver(const hvdlite_operation& operation, const hvdlite_tensor& made, const ffi::Buffer& wanted) {
  if (made.ndim != wanted.rank || !std::equal(made.shape, made.shape + made.ndim, wanted.dims)) {
    return Wrong(std::string(Name(static_cast<OpKind>(operation.kind))) + " '" + operation.name +
                 "' in a compiled function: a tensor of shape " + ShapeText(made.shape, made.ndim) +
                 " has come together, but the function was compiled for " + ShapeText(wanted.dims, wanted.rank) +
                 ". There all ranks must have equally many rows: pad them, or leave this call out of the function.");
  }
  size_t bytes = SizeOf(static_cast<DType>(made.dtype));
  for (int32_t i = 0; i < made.ndim; ++i) bytes *= static_cast<size_t>(made.shape[i]);
  if (bytes > 0) memcpy(wanted.data, made.data, bytes);
  return {};
}

// Waits, whatever becomes of it: until then the memory is the engine's.
Failure Finish(int64_t handle, const hvdlite_operation& operation, const ffi::Buffer& wanted) {
  int32_t done = 0;
  hvdlite_code code = HVDLITE_OK;
  while (code == HVDLITE_OK && !done) code = hvdlite_wait(handle, kSlice, &done);
  hvdlite_result result{};
  if (code == HVDLITE_OK) code = hvdlite_get_result(handle, &result);
  Failure failure;
  if (code != HVDLITE_OK) {
    failure = LastFailure(code);
  } else if (result.output.data != nullptr) {
    failure = Deliver(operation, result.output, wanted);
  }
  void* storage = nullptr;
  hvdlite_release(handle, &storage);
  free(storage);
  return failure;
}

Failure Collective(const ffi::CallFrame& frame) {
  hvdlite_operation common{};
  std::string name;
  if (!ReadAttributes(frame.attributes, &common, &name) || frame.arguments.count != frame.results.count ||
      frame.arguments.count < 2) {
    return Wrong("this call was compiled for another version of hvdlite");
  }
  common.name = name.c_str();
  if (!IsTheSameSet(frame.attributes, common.process_set)) {
    return Wrong("process set " + std::to_string(common.process_set) +
                 " has been removed or has other members than when this function was compiled. Compile it anew: "
                 "jax.clear_caches(), or a new tf.function");
  }
  const int64_t token = frame.arguments.count - 1;
  memset(BufferAt(frame.results, token).data, 0, sizeof(float));
  const auto count = static_cast<size_t>(token);
  std::vector<hvdlite_operation> operations(count, common);
  for (size_t i = 0; i < count; ++i) {
    operations[i].input = TensorOf(BufferAt(frame.arguments, static_cast<int64_t>(i)));
    if (!IsAllocatedByUs(common.kind))
      operations[i].output = TensorOf(BufferAt(frame.results, static_cast<int64_t>(i)));
  }
  std::vector<int64_t> handles(count);
  const hvdlite_code code =
      count == 1 ? hvdlite_run(operations.data(), kSlice, handles.data())
                 : hvdlite_submit_group(operations.data(), static_cast<int32_t>(count), common.name, handles.data());
  if (code != HVDLITE_OK) return LastFailure(code);
  if (count == 1 && handles[0] < 0) return {};
  Failure first;
  for (size_t i = 0; i < count; ++i) {
    Failure failure = Finish(handles[i], operations[i], BufferAt(frame.results, static_cast<int64_t>(i)));
    if (first.code == HVDLITE_OK) first = std::move(failure);
  }
  return first;
}

// As TensorFlow's programs know them; JAX shows the word.
ffi::ErrorCode ErrorCodeOf(hvdlite_code code) {
  switch (code) {
    case HVDLITE_INVALID_ARGUMENT: return ffi::kInvalidArgument;
    case HVDLITE_MISMATCH:
    case HVDLITE_NOT_INITIALIZED: return ffi::kFailedPrecondition;
    case HVDLITE_TIMEOUT: return ffi::kDeadlineExceeded;
    case HVDLITE_UNSUPPORTED: return ffi::kUnimplemented;
    default: return ffi::kUnknown;
  }
}

}  // namespace
}  // namespace hvdlite::ingraph

// The handler.
extern "C" HVDLITE_API hvdlite::ingraph::ffi::Error* hvdlite_xla_collective(hvdlite::ingraph::ffi::CallFrame* frame) {
  namespace ffi = hvdlite::ingraph::ffi;
  if (frame->extensions != nullptr && frame->extensions->type == ffi::kMetadataExtension) {
    ffi::Metadata* const metadata = reinterpret_cast<ffi::MetadataExtension*>(frame->extensions)->metadata;
    metadata->version.major = ffi::kMajorVersion;
    metadata->version.minor = ffi::kMinorVersion;
    metadata->traits = 0;
    return nullptr;
  }
  hvdlite::ingraph::Waiting().fetch_add(1);
  const hvdlite::ingraph::Failure failure = hvdlite::ingraph::Collective(*frame);
  hvdlite::ingraph::Waiting().fetch_sub(1);
  if (failure.code == HVDLITE_OK) return nullptr;
  ffi::CreateErrorArguments arguments{sizeof(arguments), nullptr, failure.text.c_str(),
                                      hvdlite::ingraph::ErrorCodeOf(failure.code)};
  return frame->api->create_error(&arguments);
}

// How many threads are in the handler: none of them hears of Ctrl-C.
extern "C" HVDLITE_API int32_t hvdlite_xla_waiting(void) {
  return hvdlite::ingraph::Waiting().load();
}
