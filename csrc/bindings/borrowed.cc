#include "bindings/borrowed.h"

#include <unordered_map>
#include <utility>

#include "bindings/bindings.h"
#include "bindings/exchange.h"
#include "bindings/unlocked.h"

namespace hvdlite::bindings {
namespace py = pybind11;

namespace {

void CheckWritable(const BorrowedTensor& tensor) {
  if (tensor.writable) return;
  throw py::value_error(
      "the tensor is read-only, so the result cannot be written into it; pass a copy, or use the "
      "form without _");
}

// Checks read-only first, because a caller that makes a contiguous copy writes the result back.
const hvdlite_tensor& Usable(BorrowedTensor* tensor, const py::handle& object, bool written) {
  tensor->Borrow(object);
  if (written) CheckWritable(*tensor);
  if (!tensor->contiguous) {
    PyErr_SetString(NotContiguous(), "the tensor must be contiguous");
    throw py::error_already_set();
  }
  return tensor->tensor;
}

// Memory for the result. A copy of it would be of no use.
const hvdlite_tensor& Output(BorrowedTensor* tensor, const py::handle& object) {
  tensor->Borrow(object);
  CheckWritable(*tensor);
  if (tensor->contiguous) return tensor->tensor;
  throw py::value_error(
      "the output must be contiguous: the result is written into it without a copy");
}

struct KeptAlive {
  py::object input, output, input_owner, output_owner, residual, residual_owner, memory;
  std::vector<py::object> of_list;             // outputs and owners
  const dlpack::Exchange* exchange = nullptr;  // on a GPU: reports the framework's current stream
  int device = 0;
};

struct Table {
  StateMutex mutex;
  std::unordered_map<int64_t, KeptAlive> by_handle;
};

// Never destroyed, because the interpreter may be gone before the process ends.
Table& Kept() {
  static auto* const kept = new Table;
  return *kept;
}

}  // namespace

void Call::Borrow(const py::handle& in, const py::handle& out) {
  const bool in_place = !in.is_none() && out.is(in);
  if (!in.is_none()) {
    operation.input = Usable(&input, in, /*written=*/in_place);
  } else if (hvdlite_operation_result(operation.kind) != HVDLITE_RESULT_NONE) {
    throw py::type_error("expected a tensor, got None");
  }
  operation.stream = input.producer;
  if (out.is_none()) return;
  operation.output = in_place ? input.tensor : Output(&output, out);
  static char nothing;  // an empty tensor may have no address, which would mean: allocate
  if (operation.output.data == nullptr) operation.output.data = &nothing;
}

void Call::BorrowResidual(const py::handle& object) {
  if (object.is_none()) return;
  operation.residual = Usable(&residual, object, /*written=*/true);
  residual_object = py::reinterpret_borrow<py::object>(object);
}

void Call::DescribeAllreduce(int op, int set, const std::optional<std::string>& name,
                             double prescale, double postscale, bool patient) {
  operation.kind = HVDLITE_ALLREDUCE;
  operation.op = op;
  operation.process_set = set;
  operation.name = name ? name->c_str() : nullptr;
  operation.prescale = prescale;
  operation.postscale = postscale;
  operation.patient = patient ? 1 : 0;
}

int64_t SubmitAndKeep(const py::handle& input, const py::handle& output, Call* call) {
  int64_t handle = -1;
  ThrowIfError(hvdlite_submit(&call->operation, &handle));
  KeepAlive(handle, input, output, call);
  return handle;
}

void KeepAlive(int64_t handle, const py::handle& input, const py::handle& output, Call* call) {
  KeptAlive kept{py::reinterpret_borrow<py::object>(input),
                 py::reinterpret_borrow<py::object>(output),
                 std::move(call->input.owner),
                 std::move(call->output.owner),
                 std::move(call->residual_object),
                 std::move(call->residual.owner),
                 std::move(call->memory),
                 {},
                 call->input.exchange,
                 call->input.tensor.device_index};
  Table& table = Kept();
  const StateLock lock(table.mutex);
  std::swap(table.by_handle[handle], kept);
}

void KeepAllAlive(int64_t handle, py::object tensors, std::vector<py::object> owners,
                  const BorrowedTensor& one) {
  KeptAlive kept;
  kept.input = std::move(tensors);
  kept.of_list = std::move(owners);
  kept.exchange = one.exchange;
  kept.device = one.tensor.device_index;
  Table& table = Kept();
  const StateLock lock(table.mutex);
  std::swap(table.by_handle[handle], kept);
}

hvdlite_code Follow(int64_t handle) {
  const dlpack::Exchange* exchange = nullptr;
  int device = 0;
  {
    Table& table = Kept();
    const StateLock lock(table.mutex);
    if (const auto kept = table.by_handle.find(handle); kept != table.by_handle.end()) {
      exchange = kept->second.exchange;
      device = kept->second.device;
    }
  }
  void* stream = nullptr;
  if (exchange != nullptr && CurrentStream(*exchange, device, &stream)) {
    return hvdlite_follow(handle, stream);
  }
  for (;;) {
    int32_t finished = 0;
    const hvdlite_code code =
        WithoutLock([&] { return hvdlite_wait_for_device(handle, kSlice, &finished); });
    if (code != HVDLITE_OK || finished) return code;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

// Takes the entry out of the table first, because releasing a Python object may run any code.
py::object ReleaseBorrowed(int64_t handle) {
  decltype(Table::by_handle)::node_type released;
  {
    Table& table = Kept();
    const StateLock lock(table.mutex);
    released = table.by_handle.extract(handle);
  }
  return released ? std::move(released.mapped().input) : py::object();
}

void ReleaseAllBorrowed() {
  decltype(Table::by_handle) released;
  Table& table = Kept();
  const StateLock lock(table.mutex);
  released.swap(table.by_handle);
}

// Never freed, because the interpreter may be gone before the process ends. The module makes it
// while it is imported, by one thread.
PyObject* NotContiguous() {
  static PyObject* const type = PyErr_NewExceptionWithDoc(
      "hvdlite._core.NotContiguous", "Make a contiguous copy of the tensor, and ask again.",
      PyExc_ValueError, nullptr);
  return type;
}

}  // namespace hvdlite::bindings
