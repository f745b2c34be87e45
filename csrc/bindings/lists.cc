// Groups of tensors. A group of allreduces is a list where the core says so: one operation.
#include "bindings/lists.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/fastcall.h"
#include "bindings/unlocked.h"

namespace hvdlite::bindings {
namespace py = pybind11;

namespace {

// Whether some of the tensors overlap. An operation in place would read there what it has written.
bool Overlap(const std::vector<hvdlite_tensor>& tensors) {
  std::vector<std::pair<const char*, const char*>> extents;
  for (const hvdlite_tensor& tensor : tensors) {
    const size_t bytes = BytesOf(tensor);
    const auto* const start = static_cast<const char*>(tensor.data);
    if (bytes > 0) extents.emplace_back(start, start + bytes);
  }
  std::sort(extents.begin(), extents.end());
  for (size_t i = 1; i < extents.size(); ++i) {
    if (extents[i].first < extents[i - 1].second) return true;
  }
  return false;
}

}  // namespace

bool LentTensors::Lend(PyObject* const* tensors, size_t count, PyObject* type) {
  bool lent = false;
  try {
    lent = LendEach(tensors, count, type);
  } catch (const std::exception&) {
    lent = false;
  }
  if (!lent) {
    PyErr_Clear();
    return false;
  }
  if (borrowed_[0].on_gpu() && hvdlite_can_use_gpus() != HVDLITE_OK) return false;
  return !Overlap(views_);
}

bool LentTensors::LendEach(PyObject* const* tensors, size_t count, PyObject* type) {
  borrowed_ = std::make_unique<BorrowedTensor[]>(count);
  views_.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    if (type != nullptr &&
        (PyObject_IsInstance(tensors[i], type) != 1 || !LendsQuickly(tensors[i])))
      return false;
    BorrowedTensor& each = borrowed_[i];
    each.Borrow(tensors[i]);
    if (!each.writable || !each.contiguous) return false;
    views_.push_back(each.tensor);
    static char nothing;  // an empty tensor may have no address, which would mean: allocate
    if (views_[i].data == nullptr) views_[i].data = &nothing;
  }
  return count > 0;
}

void LentTensors::Describe(hvdlite_list* list) const {
  list->inputs = list->outputs = views_.data();
  list->count = static_cast<int32_t>(views_.size());
  list->stream = borrowed_[0].producer;
}

void LentTensors::KeepFor(int64_t handle, py::object tensors) {
  std::vector<py::object> owners;
  for (size_t i = 0; i < views_.size(); ++i) {
    if (borrowed_[i].owner) owners.push_back(std::move(borrowed_[i].owner));
  }
  KeepAllAlive(handle, std::move(tensors), std::move(owners), borrowed_[0]);
}

namespace {

class ListInPlace {
 public:
  // op, process_set, name, tensors, prescale, postscale, type of the tensors
  ListInPlace(PyObject* const* given, Py_ssize_t count) {
    const Arguments arguments(given, count, 7);
    list_.op = arguments.Int(0);
    list_.process_set = arguments.Int(1);
    list_.name = arguments.TextOrNull(2, "name");
    list_.prescale = arguments.Double(4);
    list_.postscale = arguments.Double(5);
    const py::handle tensors = arguments.Object(3);
    if (!PyList_CheckExact(tensors.ptr()) && !PyTuple_CheckExact(tensors.ptr())) return;
    // A copy, because the program may change its list while the operation is in flight.
    tensors_ = py::reinterpret_steal<py::tuple>(PySequence_Tuple(tensors.ptr()));
    if (!tensors_) throw py::error_already_set();
    is_lent_ = lent_.Lend(PySequence_Fast_ITEMS(tensors_.ptr()),
                          static_cast<size_t>(PyTuple_GET_SIZE(tensors_.ptr())),
                          arguments.Object(6).ptr());
    if (is_lent_) lent_.Describe(&list_);
  }

  // Returns false if it has done nothing.
  bool Run() {
    int64_t handle = HVDLITE_NO_LIST;
    if (!is_lent_) return false;
    ThrowIfError(WithoutLock([&] { return hvdlite_run_list(&list_, kSlice, &handle); }));
    if (handle == HVDLITE_NO_LIST) return false;
    if (handle < 0) return true;
    lent_.KeepFor(handle, tensors_);
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    (void)Finish(handle);
    return true;
  }

  // Returns a handle; HVDLITE_NO_LIST if it has done nothing.
  int64_t Start() {
    int64_t handle = HVDLITE_NO_LIST;
    if (!is_lent_) return handle;
    ThrowIfError(hvdlite_submit_list(&list_, &handle));
    if (handle >= 0) lent_.KeepFor(handle, tensors_);
    return handle;
  }

 private:
  py::tuple tensors_;
  LentTensors lent_;
  hvdlite_list list_{};
  bool is_lent_ = false;
};

PyObject* RunListInPlace(PyObject*, PyObject* const* given, Py_ssize_t count) {
  return Guarded([&]() -> py::object { return py::bool_(ListInPlace(given, count).Run()); });
}

// Returns a handle for end_in_place(), which returns the tensors; None if it has done nothing.
PyObject* StartListInPlace(PyObject*, PyObject* const* given, Py_ssize_t count) {
  return Guarded([&]() -> py::object {
    const int64_t handle = ListInPlace(given, count).Start();
    return handle < 0 ? py::none() : py::object(py::int_(handle + kInPlace));
  });
}

// A list's one handle. None if the core says that the calls are no list.
std::optional<int64_t> SubmitAsList(std::vector<Call>* calls, const char* name) {
  const hvdlite_operation& first = (*calls)[0].operation;
  std::vector<hvdlite_tensor> inputs, outputs;
  for (Call& call : *calls) {
    if (call.operation.output.data == nullptr || call.operation.stream != first.stream)
      return std::nullopt;
    inputs.push_back(call.operation.input);
    outputs.push_back(call.operation.output);
  }
  const hvdlite_list list{first.op,
                          first.process_set,
                          name,
                          nullptr,
                          inputs.data(),
                          outputs.data(),
                          static_cast<int32_t>(inputs.size()),
                          first.prescale,
                          first.postscale,
                          first.stream,
                          first.patient};
  int64_t handle = HVDLITE_NO_LIST;
  ThrowIfError(hvdlite_submit_list(&list, &handle));
  if (handle < 0) return std::nullopt;
  return handle;
}

// Returns one handle for all, or one for each.
std::vector<int64_t> SubmitGroup(int kind, int op, int set, const std::optional<std::string>& name,
                                 const std::vector<py::object>& inputs,
                                 const std::vector<py::object>& outputs, double prescale,
                                 double postscale, bool patient) {
  std::vector<Call> calls(inputs.size());
  std::vector<hvdlite_operation> operations;
  for (size_t i = 0; i < inputs.size(); ++i) {
    hvdlite_operation& operation = calls[i].operation;
    operation.kind = kind;
    operation.op = op;
    operation.process_set = set;
    operation.prescale = prescale;
    operation.postscale = postscale;
    operation.patient = patient ? 1 : 0;
    calls[i].Borrow(inputs[i], outputs.empty() ? py::none() : outputs[i]);
    operations.push_back(operation);
  }
  const char* const group = name ? name->c_str() : nullptr;
  if (kind == HVDLITE_ALLREDUCE && !calls.empty()) {
    if (const std::optional<int64_t> handle = SubmitAsList(&calls, group)) {
      std::vector<py::object> kept(outputs);
      for (Call& call : calls) {
        kept.push_back(std::move(call.input.owner));
        kept.push_back(std::move(call.output.owner));
      }
      KeepAllAlive(*handle, py::cast(inputs), std::move(kept), calls[0].input);
      return {*handle};
    }
  }
  std::vector<int64_t> handles(inputs.size());
  ThrowIfError(hvdlite_submit_group(operations.data(), static_cast<int32_t>(operations.size()),
                                    group, handles.data()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    KeepAlive(handles[i], inputs[i], outputs.empty() ? py::none() : outputs[i], &calls[i]);
  }
  return handles;
}

PyMethodDef list_functions[] = {
    {"run_list_in_place", AsMethod(&RunListInPlace), METH_FASTCALL, nullptr},
    {"start_list_in_place", AsMethod(&StartListInPlace), METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void BindLists(py::module_& module) {
  if (PyModule_AddFunctions(module.ptr(), list_functions) != 0) throw py::error_already_set();
  module.def("submit_group", &SubmitGroup, py::arg("kind"), py::arg("op"), py::arg("process_set"),
             py::arg("name"), py::arg("inputs"), py::arg("outputs"), py::arg("prescale"),
             py::arg("postscale"), py::arg("patient"));
}

}  // namespace hvdlite::bindings
