// Collectives in programs that XLA has compiled: one custom call for all of them, registered in
// JAX's XLA and in TensorFlow's. A call has any number of tensors, submits all of them at once and
// then waits for all.
//
// It blocks one of XLA's threads, of which there may be only two, while XLA runs independent calls
// in any order. So calls of one program must depend on one another. The last operand and the last
// result are therefore a token, a scalar float32, which each call passes to the next
// (hvdlite/adapter/xla.py). Both are the same memory, which is never read.
//
// On a GPU it blocks XLA's launching thread until the ranks have agreed and hvdlite has enqueued
// everything on a stream of its own. Only XLA's stream waits for results: the call's work follows
// the earlier work of that stream, and later work of that stream follows the call.
//
// An allreduce by a codec has more operands behind its tensors: their residuals, as many or none,
// and the number of the step, a scalar float32. Each comes back as a result: residuals with what
// was lost, the step as it was.
//
// Attributes: kind, op, process_set (i32), root (i64), prescale, postscale (f64), name (string),
// and members (array of i32; empty for the global set): the ranks of the process set when the
// program was compiled. With a codec: codec, residuals (i32), codec_seed (i64), codec_parameter
// (f64).
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "api/hvdlite.h"
#include "ingraph/failure.h"
#include "ingraph/xla_frame.h"

namespace hvdlite::ingraph {
namespace {

// A wait ends with its operation, because this thread has nothing else to do.
constexpr double kSlice = 3600.0;

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

// The place of a call's tensors.
struct Place {
  int32_t device_kind = 0;
  int32_t device_index = 0;
  void* stream = nullptr;  // on a GPU: XLA's

  bool on_gpu() const { return device_kind != 0; }
  void Put(hvdlite_tensor* tensor) const {
    tensor->device_kind = device_kind;
    tensor->device_index = device_index;
  }
};

// A process set's id may belong to another set now than when the program was compiled.
bool IsTheSameSet(const ffi::Attributes& given, int32_t process_set) {
  const auto* members =
      static_cast<const ffi::Array*>(FindAttribute(given, "members", ffi::kArray));
  if (members == nullptr || members->size == 0) return true;
  std::vector<int32_t> now(members->size + 1);
  const int32_t count =
      hvdlite_process_set_ranks(process_set, now.data(), static_cast<int32_t>(now.size()));
  const auto* then = static_cast<const int32_t*>(members->data);
  return static_cast<size_t>(count) == members->size &&
         std::equal(then, then + members->size, now.begin());
}

// ---- The call

// Whether the library allocates the results, whose shape is known only when all ranks have agreed.
bool IsAllocatedByUs(int32_t kind) {
  const int32_t result = hvdlite_operation_result(kind);
  return result == HVDLITE_RESULT_GATHERED || result == HVDLITE_RESULT_EXCHANGED;
}

std::string ShapeText(const int64_t* dims, int64_t rank) {
  std::string text = "[";
  for (int64_t i = 0; i < rank; ++i) text += (i ? ", " : "") + std::to_string(dims[i]);
  return text + "]";
}

Failure Deliver(int64_t handle, const hvdlite_operation& operation, const hvdlite_tensor& made,
                const Place& place, const ffi::Buffer& wanted) {
  if (made.ndim != wanted.rank || !std::equal(made.shape, made.shape + made.ndim, wanted.dims)) {
    return Wrong(std::string(hvdlite_operation_name(operation.kind)) + " '" + operation.name +
                 "' in a compiled function: the result has shape " +
                 ShapeText(made.shape, made.ndim) + ", but the function was compiled for " +
                 ShapeText(wanted.dims, wanted.rank) +
                 ". In a compiled function all ranks must pass the same number of rows: pad them, "
                 "or leave this call out of the function.");
  }
  if (place.on_gpu()) {
    const hvdlite_code code = hvdlite_copy_result(handle, wanted.data, place.stream);
    return code == HVDLITE_OK ? Failure() : LastFailure(code);
  }
  auto bytes = static_cast<size_t>(hvdlite_dtype_size(made.dtype));
  for (int32_t i = 0; i < made.ndim; ++i) bytes *= static_cast<size_t>(made.shape[i]);
  if (bytes > 0) memcpy(wanted.data, made.data, bytes);
  return {};
}

// Waits in any case, because the engine uses the memory until then.
Failure Finish(int64_t handle, const hvdlite_operation& operation, const Place& place,
               const ffi::Buffer& wanted) {
  int32_t done = 0;
  hvdlite_code code = HVDLITE_OK;
  while (code == HVDLITE_OK && !done) code = hvdlite_wait(handle, kSlice, &done);
  hvdlite_result result{};
  if (code == HVDLITE_OK) code = hvdlite_get_result(handle, &result);
  if (code == HVDLITE_OK && place.on_gpu()) code = hvdlite_follow(handle, place.stream);
  Failure failure;
  if (code != HVDLITE_OK) {
    failure = LastFailure(code);
  } else if (IsAllocatedByUs(operation.kind)) {
    failure = Deliver(handle, operation, result.output, place, wanted);
  }
  void* storage = nullptr;
  (void)hvdlite_take(handle, &result, &storage);
  if (!place.on_gpu()) {
    free(storage);
  } else if (storage != nullptr) {
    hvdlite_free_memory(static_cast<hvdlite_device_memory*>(storage));
  }
  return failure;
}

// How many of the operands are tensors. Of those behind them, the step and the residuals, the
// operations get the results' memory, to which this copies.
size_t PassCodec(const ffi::CallFrame& frame, int32_t residuals, hvdlite_operation* common,
                 std::vector<hvdlite_tensor>* passed) {
  const int64_t step = frame.arguments.count - 2;
  const int64_t tensors = step - residuals;
  for (int64_t i = tensors; i <= step; ++i) {
    const ffi::Buffer& from = BufferAt(frame.arguments, i);
    const ffi::Buffer& to = BufferAt(frame.results, i);
    auto bytes = sizeof(float);
    for (int64_t d = 0; d < from.rank; ++d) bytes *= static_cast<size_t>(from.dims[d]);
    if (bytes > 0 && to.data != from.data) memcpy(to.data, from.data, bytes);
    if (i < step) passed->push_back(TensorOf(to));
  }
  common->codec_step =
      static_cast<uint64_t>(*static_cast<const float*>(BufferAt(frame.arguments, step).data));
  return static_cast<size_t>(tensors);
}

// Submits operations one by one, each under a name of its own: groups have no codecs. After a
// failure *handles has those that are under way.
Failure SubmitEach(std::vector<hvdlite_operation>* operations, std::vector<int64_t>* handles) {
  for (size_t i = 0; i < operations->size(); ++i) {
    const std::string name = std::string((*operations)[i].name) + "." + std::to_string(i);
    hvdlite_operation operation = (*operations)[i];
    operation.name = name.c_str();
    const hvdlite_code code = hvdlite_submit(&operation, &(*handles)[i]);
    if (code != HVDLITE_OK) {
      handles->resize(i);
      return LastFailure(code);
    }
  }
  return {};
}

Failure Collective(const ffi::CallFrame& frame, Place place) {
  hvdlite_operation common{};
  std::string name;
  if (!ReadAttributes(frame.attributes, &common, &name) ||
      frame.arguments.count != frame.results.count || frame.arguments.count < 2) {
    return Wrong("this call was compiled for another version of hvdlite");
  }
  common.name = name.c_str();
  if (!IsTheSameSet(frame.attributes, common.process_set)) {
    return Wrong("process set " + std::to_string(common.process_set) +
                 " has been removed or has other members than when this function was compiled. "
                 "Compile it anew: "
                 "jax.clear_caches(), or a new tf.function");
  }
  const int64_t token = frame.arguments.count - 1;
  if (place.on_gpu()) {
    const hvdlite_code found =
        hvdlite_gpu_of(BufferAt(frame.results, token).data, &place.device_index);
    if (found != HVDLITE_OK) return LastFailure(found);
    common.stream = place.stream;
  }
  auto count = static_cast<size_t>(token);
  std::vector<hvdlite_tensor> residuals;
  int32_t with_residual = 0;
  if (ReadCodec(frame.attributes, &common, &with_residual)) {
    if (place.on_gpu()) {
      return {
          HVDLITE_UNSUPPORTED,
          "hvdlite.NotImplementedError: a codec in a compiled function works on tensors in host "
          "memory only"};
    }
    count = PassCodec(frame, with_residual, &common, &residuals);
  }
  std::vector<hvdlite_operation> operations(count, common);
  for (size_t i = 0; i < residuals.size(); ++i) operations[i].residual = residuals[i];
  for (size_t i = 0; i < count; ++i) {
    operations[i].input = TensorOf(BufferAt(frame.arguments, static_cast<int64_t>(i)));
    place.Put(&operations[i].input);
    if (IsAllocatedByUs(common.kind)) continue;
    operations[i].output = TensorOf(BufferAt(frame.results, static_cast<int64_t>(i)));
    place.Put(&operations[i].output);
  }
  std::vector<int64_t> handles(count);
  Failure first;
  if (common.codec != 0) {
    first = SubmitEach(&operations, &handles);
  } else {
    const hvdlite_code code =
        count == 1 ? hvdlite_run(operations.data(), kSlice, handles.data())
                   : hvdlite_submit_group(operations.data(), static_cast<int32_t>(count),
                                          common.name, handles.data());
    if (code != HVDLITE_OK) return LastFailure(code);
    if (count == 1 && handles[0] < 0) return {};
  }
  for (size_t i = 0; i < handles.size(); ++i) {
    Failure failure =
        Finish(handles[i], operations[i], place, BufferAt(frame.results, static_cast<int64_t>(i)));
    if (first.code == HVDLITE_OK) first = std::move(failure);
  }
  return first;
}

// The codes that programs of TensorFlow expect; JAX shows the word.
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

// Reports no traits. Above all, XLA must not put the call into a CUDA graph.
bool AnswerMetadata(const ffi::CallFrame& frame) {
  if (frame.extensions == nullptr || frame.extensions->type != ffi::kMetadataExtension)
    return false;
  ffi::Metadata* const metadata =
      reinterpret_cast<ffi::MetadataExtension*>(frame.extensions)->metadata;
  metadata->version.major = ffi::kMajorVersion;
  metadata->version.minor = ffi::kMinorVersion;
  metadata->traits = 0;
  return true;
}

ffi::Error* Handle(const ffi::CallFrame& frame, const Place& place) {
  Waiting().fetch_add(1);
  const Failure failure = Collective(frame, place);
  Waiting().fetch_sub(1);
  if (failure.code == HVDLITE_OK) return nullptr;
  ffi::CreateErrorArguments arguments{sizeof(arguments), nullptr, failure.text.c_str(),
                                      ErrorCodeOf(failure.code)};
  return frame.api->create_error(&arguments);
}

}  // namespace
}  // namespace hvdlite::ingraph

// The handler for platform Host.
extern "C" HVDLITE_API hvdlite::ingraph::ffi::Error* hvdlite_xla_collective(
    hvdlite::ingraph::ffi::CallFrame* frame) {
  return hvdlite::ingraph::AnswerMetadata(*frame) ? nullptr : hvdlite::ingraph::Handle(*frame, {});
}

// The handler for platform CUDA.
extern "C" HVDLITE_API hvdlite::ingraph::ffi::Error* hvdlite_xla_collective_on_cuda(
    hvdlite::ingraph::ffi::CallFrame* frame) {
  namespace ffi = hvdlite::ingraph::ffi;
  if (hvdlite::ingraph::AnswerMetadata(*frame)) return nullptr;
  ffi::GetStreamArguments asked{sizeof(asked), nullptr, frame->context, nullptr};
  if (ffi::Error* const error = frame->api->get_stream(&asked)) return error;
  return hvdlite::ingraph::Handle(*frame, {.device_kind = 1, .stream = asked.stream});
}

// The number of threads in the handler. Ctrl-C does not interrupt them.
extern "C" HVDLITE_API int32_t hvdlite_xla_waiting(void) {
  return hvdlite::ingraph::Waiting().load();
}
