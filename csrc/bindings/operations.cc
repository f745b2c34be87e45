#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/tensors.h"
#include "bindings/unlocked.h"

namespace hvdlite::bindings {
namespace py = pybind11;

namespace {

// Long enough to cost nothing, short enough that Ctrl-C feels immediate while a thread spins (a sleeping one is woken by
// the signal itself).
constexpr double kSlice = 0.1;

// Kinds up to this one (reducescatter) have a tensor, those beyond (barrier, join, ...) none.
constexpr int kLastWithTensor = 4;

// One operation as Python gives it, with what it borrows.
struct Call {
  hvdlite_operation operation{};
  Lent input;
  Lent output;

  void Prepare(int kind, int op, int set, const py::handle& in, const py::handle& out, int64_t root, double prescale,
               double postscale, const std::vector<int64_t>& splits) {
    if (in.is_none()) {
      if (kind <= kLastWithTensor) throw py::type_error("expected a tensor, got None");
    } else {
      input = Lend(in);
      if (!input.contiguous) throw py::value_error("the tensor must be contiguous");
    }
    operation.input = input.view();
    if (!out.is_none()) {
      output = Lend(out);
      if (!output.contiguous) throw py::value_error("the result tensor must be contiguous");
      if (!output.writable) {
        throw py::value_error("the tensor is read-only, so the result cannot be written into it; pass a copy");
      }
    }
    operation.output = output.view();
    operation.kind = kind;
    operation.op = op;
    operation.process_set = set;
    operation.root = root;
    operation.prescale = prescale;
    operation.postscale = postscale;
    operation.splits = splits.data();
    operation.split_count = static_cast<int32_t>(splits.size());
  }
};

// Lending checks nothing across ranks and needs the GIL; submitting needs no Python and gives it up.
int64_t Submit(int kind, int op, int set, const std::optional<std::string>& name, const py::object& input,
               const py::object& output, int64_t root, double prescale, double postscale,
               const std::vector<int64_t>& splits, bool will_wait) {
  Call call;
  call.Prepare(kind, op, set, input, output, root, prescale, postscale, splits);
  call.operation.name = name ? name->c_str() : nullptr;
  call.operation.will_wait = will_wait ? 1 : 0;
  int64_t handle = -1;
  ThrowIfError(hvdlite_submit(&call.operation, &handle));
  return handle;
}

std::vector<int64_t> SubmitGroup(int kind, int op, int set, const std::optional<std::string>& name,
                                 const std::vector<py::object>& inputs, const std::vector<py::object>& outputs,
                                 double prescale, double postscale) {
  std::vector<Call> calls(inputs.size());
  std::vector<hvdlite_operation> operations;
  const std::vector<int64_t> no_splits;
  for (size_t i = 0; i < inputs.size(); ++i) {
    calls[i].Prepare(kind, op, set, inputs[i], outputs.empty() ? py::object(py::none()) : outputs[i], 0, prescale,
                     postscale, no_splits);
    operations.push_back(calls[i].operation);
  }
  std::vector<int64_t> handles(inputs.size());
  ThrowIfError(hvdlite_submit_group(operations.data(), static_cast<int32_t>(operations.size()),
                                    name ? name->c_str() : nullptr, handles.data()));
  return handles;
}

bool WaitSlices(int64_t handle, double timeout) {
  const bool forever = timeout < 0;
  for (;;) {
    int32_t done = 0;
    hvdlite_code code = hvdlite_poll(handle, &done);
    if (code == HVDLITE_OK && !done) {
      const Unlocked unlocked;
      code = hvdlite_wait(handle, forever || timeout > kSlice ? kSlice : timeout, &done);
    }
    ThrowIfError(code);
    if (done) return true;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (!forever && (timeout -= kSlice) <= 0) return false;
  }
}

// None, or the array that the library allocated for the result.
py::object TakeOutput(int64_t handle, const hvdlite_result& result) {
  if (result.output.data == nullptr) {
    hvdlite_release(handle, nullptr);
    return py::none();
  }
  const std::vector<py::ssize_t> shape(result.output.shape, result.output.shape + result.output.ndim);
  const py::dtype dtype = NumpyDType(result.output.dtype);
  void* const data = result.output.data;
  void* storage = nullptr;
  hvdlite_release(handle, &storage);
  return py::array(dtype, shape, data, py::capsule(storage, [](void* p) { free(p); }));
}

// Blocks until the operation is done; (result or None, received splits, number). Ends the handle.
py::tuple Wait(int64_t handle) {
  WaitSlices(handle, -1);
  hvdlite_result result;
  const hvdlite_code code = hvdlite_get_result(handle, &result);
  if (code != HVDLITE_OK) {
    hvdlite_release(handle, nullptr);
    ThrowIfError(code);
  }
  py::list splits;
  for (int32_t i = 0; i < result.split_count; ++i) splits.append(result.received_splits[i]);
  const int64_t number = result.number;
  py::object output = TakeOutput(handle, result);
  return py::make_tuple(std::move(output), std::move(splits), number);
}

bool Poll(int64_t handle) {
  int32_t done = 0;
  ThrowIfError(hvdlite_poll(handle, &done));
  return done != 0;
}

}  // namespace

void BindOperations(py::module_& module) {
  module.def("submit", &Submit, py::arg("kind"), py::arg("op"), py::arg("process_set"), py::arg("name"),
             py::arg("input"), py::arg("output"), py::arg("root"), py::arg("prescale"), py::arg("postscale"),
             py::arg("splits"), py::arg("will_wait"));
  module.def("submit_group", &SubmitGroup, py::arg("kind"), py::arg("op"), py::arg("process_set"), py::arg("name"),
             py::arg("inputs"), py::arg("outputs"), py::arg("prescale"), py::arg("postscale"));
  module.def("wait", &Wait, py::arg("handle"));
  module.def("wait_for", &WaitSlices, py::arg("handle"), py::arg("timeout"), "False if `timeout` seconds pass first.");
  module.def("poll", &Poll, py::arg("handle"));
}

}  // namespace hvdlite::bindings
