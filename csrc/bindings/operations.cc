// Submits operations and waits for them. What runs once per tensor uses Python's fast calling
// convention.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/borrowed.h"
#include "bindings/device_array.h"
#include "bindings/fastcall.h"
#include "bindings/unlocked.h"

namespace hvdlite::bindings {
namespace py = pybind11;

namespace {

// hvdlite_end's *done for a GPU operation whose work is enqueued.
constexpr int32_t kOnGpu = 2;

// kind, op, process_set, name, input, output, root, prescale, postscale, splits
constexpr int kDescribed = 10;

void Describe(const Arguments& given, Call* call, std::vector<int64_t>* splits) {
  hvdlite_operation& operation = call->operation;
  operation.kind = given.Int(0);
  operation.op = given.Int(1);
  operation.process_set = given.Int(2);
  operation.name = given.TextOrNull(3, "name");
  call->Borrow(given.Object(4), given.Object(5));
  operation.root = given.Long(6);
  operation.prescale = given.Double(7);
  operation.postscale = given.Double(8);
  const py::handle parts = given.Object(9);
  if (!PyList_CheckExact(parts.ptr()) || PyList_GET_SIZE(parts.ptr()) != 0)
    *splits = parts.cast<std::vector<int64_t>>();
  operation.splits = splits->data();
  operation.split_count = static_cast<int32_t>(splits->size());
}

// submit(..., patient) -> handle
PyObject* Submit(PyObject*, PyObject* const* given, Py_ssize_t count) {
  return Guarded([&]() -> py::object {
    const Arguments arguments(given, count, kDescribed + 1);
    Call call;
    std::vector<int64_t> splits;
    Describe(arguments, &call, &splits);
    call.operation.patient = arguments.Int(kDescribed);
    return py::int_(SubmitAndKeep(arguments.Object(4), arguments.Object(5), &call));
  });
}

void WaitInSlices(int64_t handle) {
  for (;;) {
    int32_t done = 0;
    hvdlite_code code = hvdlite_poll(handle, &done);
    if (code == HVDLITE_OK && !done) {
      const Unlocked unlocked;
      code = hvdlite_wait(handle, kSlice, &done);
    }
    ThrowIfError(code);
    if (done) return;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

}  // namespace

py::object Finish(int64_t handle) {
  WaitInSlices(handle);
  hvdlite_result result;
  void* storage = nullptr;
  hvdlite_code code = hvdlite_get_result(handle, &result);
  if (code != HVDLITE_OK) {
    (void)Follow(handle);  // returns the same: the device may still use the tensors
  } else if (result.on_gpu) {
    code = Follow(handle);
  }
  if (code != HVDLITE_OK) {
    hvdlite_release(handle);
    ReleaseBorrowed(handle);
    ThrowIfError(code);
  }
  ThrowIfError(hvdlite_take(handle, &result, &storage));
  // Copied before any Python object is made, because that may run any code.
  const hvdlite_tensor tensor = result.output;
  const std::vector<py::ssize_t> shape(tensor.shape, tensor.shape + tensor.ndim);
  const std::vector<int64_t> received(result.received_splits,
                                      result.received_splits + result.split_count);
  ReleaseBorrowed(handle);
  py::object output = py::none();
  if (storage != nullptr && tensor.device_kind != 0) {
    output = MakeDeviceArray(static_cast<hvdlite_device_memory*>(storage), tensor, shape);
  } else if (tensor.data != nullptr) {
    const py::capsule owner(storage, [](void* p) { free(p); });
    output = py::array(NumpyDType(tensor.dtype), shape, tensor.data, owner);
  }
  py::tuple splits(received.size());
  for (size_t i = 0; i < received.size(); ++i) splits[i] = py::int_(received[i]);
  return py::make_tuple(std::move(output), std::move(splits), result.number);
}

namespace {

PyObject* Wait(PyObject*, PyObject* handle) {
  return Guarded([&] { return Finish(Arguments(&handle, 1, 1).Long(0)); });
}

// The handles of a list that have not ended yet, from the list's end. The destructor removes the
// ended ones from the list.
class Remaining {
 public:
  explicit Remaining(PyObject* list) : list_(list), count_(PyList_GET_SIZE(list)) {}
  ~Remaining() {
    if (count_ < PyList_GET_SIZE(list_))
      PyList_SetSlice(list_, count_, PyList_GET_SIZE(list_), nullptr);
  }
  Remaining(const Remaining&) = delete;
  Remaining& operator=(const Remaining&) = delete;

  // Another thread may have changed the list while the interpreter was unlocked.
  bool any() {
    count_ = std::min(count_, PyList_GET_SIZE(list_));
    return count_ > 0;
  }
  int64_t last() const {
    const auto list = py::reinterpret_borrow<py::list>(list_);
    const py::object handle = list[static_cast<size_t>(count_ - 1)];
    PyObject* const given = handle.ptr();
    return Arguments(&given, 1, 1).Long(0);
  }
  void Shorten() { --count_; }

 private:
  PyObject* const list_;
  Py_ssize_t count_;
};

// Waits until the operation is done, and releases its handle as hvdlite_end does.
hvdlite_code End(int64_t handle, int32_t* done) {
  hvdlite_code code = hvdlite_end(handle, 0, done);
  while (code == HVDLITE_OK && *done == 0) {
    code = WithoutLock([&] { return hvdlite_end(handle, kSlice, done); });
    if (*done == 0 && PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
  if (*done == 0) ThrowIfError(code);  // only the wait has ended; the operation continues
  return code;
}

// Waits for all handles of a list, even if some fail. Then raises the error of the first that
// failed. For operations whose results are in their outputs. A signal ends the wait; unfinished
// operations stay in the list.
PyObject* WaitAll(PyObject*, PyObject* given) {
  return Guarded([&]() -> py::object {
    if (!PyList_CheckExact(given)) throw py::type_error("expected a list of handles");
    std::optional<py::error_already_set> first;  // in the order of the list
    // Waits backwards: when the last one is done, the others usually are, too.
    Remaining remaining(given);
    for (; remaining.any(); remaining.Shorten()) {
      const int64_t handle = remaining.last();
      int32_t done = 0;
      hvdlite_code code = End(handle, &done);
      if (done == kOnGpu) {
        code = Follow(handle);
        hvdlite_release(handle);
      }
      ReleaseBorrowed(handle);
      try {
        ThrowIfError(code);
      } catch (py::error_already_set& error) {
        first.emplace(error);
      }
    }
    if (first) throw py::error_already_set(*first);
    return py::none();
  });
}

// Returns None if the result is in the output, else what wait() returns.
py::object RunOrThrow(const py::handle& input, const py::handle& output, Call* call) {
  int64_t handle = -1;
  ThrowIfError(WithoutLock([&] { return hvdlite_run(&call->operation, kSlice, &handle); }));
  if (handle < 0) return py::none();
  KeepAlive(handle, input, output, call);
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  return Finish(handle);
}

// Submits and waits.
PyObject* Run(PyObject*, PyObject* const* given, Py_ssize_t count) {
  return Guarded([&]() -> py::object {
    const Arguments arguments(given, count, kDescribed);
    Call call;
    std::vector<int64_t> splits;
    Describe(arguments, &call, &splits);
    return RunOrThrow(arguments.Object(4), arguments.Object(5), &call);
  });
}

// Whether the tensor is lent as it is: in host memory, contiguous, writable, of a dtype that
// hvdlite knows, and without a call of Python.
bool LendsAsItIs(const py::handle& tensor, Call* call) {
  if (!LendsQuickly(tensor)) return false;
  try {
    call->Borrow(tensor, tensor);
  } catch (const std::exception&) {
    PyErr_Clear();
    return false;
  }
  return !call->input.on_gpu();
}

// An allreduce in place, of a tensor that is lent as it is. False for another tensor.
class InPlace {
 public:
  InPlace(PyObject* const* given, Py_ssize_t count)
      : arguments_(given, count, 6), tensor_(arguments_.Object(3)) {
    hvdlite_operation& operation = call_.operation;
    operation.kind = HVDLITE_ALLREDUCE;
    operation.op = arguments_.Int(0);
    operation.process_set = arguments_.Int(1);
    operation.name = arguments_.TextOrNull(2, "name");
    operation.prescale = arguments_.Double(4);
    operation.postscale = arguments_.Double(5);
    is_lent_ = LendsAsItIs(tensor_, &call_);
  }

  explicit operator bool() const { return is_lent_; }
  void Run() { RunOrThrow(tensor_, tensor_, &call_); }
  int64_t Start() { return SubmitAndKeep(tensor_, tensor_, &call_); }

 private:
  const Arguments arguments_;
  const py::handle tensor_;
  Call call_;
  bool is_lent_ = false;
};

// Returns False if it has done nothing.
PyObject* RunInPlace(PyObject*, PyObject* const* given, Py_ssize_t count) {
  return Guarded([&]() -> py::object {
    InPlace operation(given, count);
    if (operation) operation.Run();
    return py::bool_(static_cast<bool>(operation));
  });
}

// Returns a handle for end_in_place(); None if it has done nothing.
PyObject* StartInPlace(PyObject*, PyObject* const* given, Py_ssize_t count) {
  return Guarded([&]() -> py::object {
    InPlace operation(given, count);
    if (!operation) return py::none();
    return py::int_(operation.Start() + kInPlace);
  });
}

// Blocks until the operation is done and returns its tensor, or a list's tuple of tensors. None for
// one that has been ended.
PyObject* EndInPlace(PyObject*, PyObject* given) {
  return Guarded([&]() -> py::object {
    const int64_t handle = Arguments(&given, 1, 1).Long(0) - kInPlace;
    int32_t done = 0;
    hvdlite_code code = End(handle, &done);
    if (done < 0) return py::none();
    if (done == kOnGpu) {
      code = Follow(handle);
      hvdlite_release(handle);
    }
    py::object tensor = ReleaseBorrowed(handle);
    if (!tensor) return py::none();  // another thread has seen the end, too, and was first
    ThrowIfError(code);
    return tensor;
  });
}

PyObject* Poll(PyObject*, PyObject* handle) {
  return Guarded([&]() -> py::object {
    int32_t done = 0;
    ThrowIfError(hvdlite_poll(Arguments(&handle, 1, 1).Long(0), &done));
    return py::bool_(done != 0);
  });
}

PyMethodDef hot_functions[] = {
    {"submit", AsMethod(&Submit), METH_FASTCALL, nullptr},
    {"run", AsMethod(&Run), METH_FASTCALL, nullptr},
    {"run_in_place", AsMethod(&RunInPlace), METH_FASTCALL, nullptr},
    {"start_in_place", AsMethod(&StartInPlace), METH_FASTCALL, nullptr},
    {"end_in_place", &EndInPlace, METH_O, nullptr},
    {"wait", &Wait, METH_O, nullptr},
    {"wait_all", &WaitAll, METH_O, nullptr},
    {"poll", &Poll, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void BindOperations(py::module_& module) {
  if (PyModule_AddFunctions(module.ptr(), hot_functions) != 0) throw py::error_already_set();
  module.attr("NotContiguous") = py::handle(NotContiguous());
  module.def(
      "give_back", &ReleaseAllBorrowed,
      "Releases all borrowed tensors. Call it after shutdown, when no operation is in flight.");
  module.def("release_all", &hvdlite_release_all,
             "Releases all handles with their results. Call it before the next init.");
}

}  // namespace hvdlite::bindings
