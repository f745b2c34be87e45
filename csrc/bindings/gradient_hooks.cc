// GradientHooks: submits each gradient for an in-place allreduce from its autograd hook, without
// entering Python.
//
// A framework calls a hook for each parameter whose gradient is complete. That happens once per
// gradient and step, so the hook is native and costs a few hundred instructions; everything rarer
// is in hvdlite/adapter/hooks/reducer.py.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <deque>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/borrowed.h"
#include "bindings/unlocked.h"

namespace hvdlite::bindings {
namespace py = pybind11;

namespace {

constexpr const char* kHook = "hvdlite.hook";

// Names of attributes. Made while the module is imported, and never freed.
struct AttributeNames {
  PyObject* grad = nullptr;
  PyObject* process_set_id = nullptr;
} attribute_names;

PyObject* Interned(const char* text) {
  PyObject* const name = PyUnicode_InternFromString(text);
  if (name == nullptr) throw py::error_already_set();
  return name;
}

py::object Attribute(const py::handle& object, PyObject* name) {
  PyObject* const value = PyObject_GetAttr(object.ptr(), name);
  if (value == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(value);
}

class GradientHooks {
 public:
  GradientHooks(int op, double prescale, double postscale, py::object process_set)
      : op_(op), prescale_(prescale), postscale_(postscale), process_set_(std::move(process_set)) {}

  int Add(std::string name) {
    const StateLock lock(mutex_);
    slots_.push_back({.name = std::move(name)});
    return static_cast<int>(slots_.size()) - 1;
  }

  void Permit(int number, bool permitted) {
    const StateLock lock(mutex_);
    slots_.at(static_cast<size_t>(number)).permitted = permitted;
  }

  // Submits the parameter's gradient. Returns false if that is not possible here; the caller then
  // uses its slower path.
  bool Submit(int number, const py::handle& parameter) noexcept {
    try {
      py::object gradient = Attribute(parameter, attribute_names.grad);
      // None until it is registered
      const py::object process_set = Attribute(process_set_, attribute_names.process_set_id);
      if (!PyLong_Check(process_set.ptr())) return false;

      Call call;
      hvdlite_operation& operation = call.operation;
      operation.kind = HVDLITE_ALLREDUCE;
      operation.op = op_;
      operation.prescale = prescale_;
      operation.postscale = postscale_;
      operation.process_set = process_set.cast<int>();
      operation.patient = 1;
      operation.name = NameOf(number);
      call.Borrow(gradient, gradient);
      int64_t handle = -1;
      if (hvdlite_submit(&operation, &handle) != HVDLITE_OK) return false;
      KeepAlive(handle, gradient, gradient, &call);
      handles_.append(handle);
      auto kept = py::reinterpret_borrow<py::object>(parameter);
      const StateLock lock(mutex_);
      in_flight_.push_back({number, std::move(kept), std::move(gradient)});
      return true;
    } catch (const std::exception&) {  // including Python's errors
      return false;
    }
  }

  // The hook's work, once per step. A second backward pass needs the count of passes, which Python
  // keeps.
  bool SubmitByHook(int number, const py::handle& parameter) noexcept {
    if (!Begin(number)) return false;
    const bool submitted = Submit(number, parameter);
    const StateLock lock(mutex_);
    if (submitted) {
      by_hook_.push_back(number);
    } else {
      slots_[static_cast<size_t>(number)].submitted = false;
    }
    return submitted;
  }

  std::vector<int> TakeSubmitted() {
    const StateLock lock(mutex_);
    return std::exchange(by_hook_, {});
  }

  void BeginStep() {
    const StateLock lock(mutex_);
    by_hook_.clear();
    for (Slot& slot : slots_) slot.submitted = false;
  }

  py::list handles() const { return handles_; }

  std::vector<int> Finish() {
    std::vector<int> replaced;
    for (const InFlight& each : TakeInFlight()) {
      if (!Attribute(each.parameter, attribute_names.grad).is(each.gradient))
        replaced.push_back(each.number);
    }
    return replaced;
  }

  void Forget() {
    handles_.attr("clear")();
    const auto released = TakeInFlight();
    BeginStep();
  }

 private:
  struct Slot {
    std::string name;
    bool permitted = false;  // its hook may submit it
    bool submitted = false;  // its hook has submitted it in this step
  };
  struct InFlight {
    int number;
    py::object parameter, gradient;
  };

  const char* NameOf(int number) {
    const StateLock lock(mutex_);
    return slots_.at(static_cast<size_t>(number)).name.c_str();
  }

  // Whether the hook may submit now. It may once per step.
  bool Begin(int number) {
    const StateLock lock(mutex_);
    Slot& slot = slots_[static_cast<size_t>(number)];
    return slot.permitted && !std::exchange(slot.submitted, true);
  }

  // Its caller releases them, which may run any code.
  std::vector<InFlight> TakeInFlight() {
    const StateLock lock(mutex_);
    return std::exchange(in_flight_, {});
  }

  const int op_;
  const double prescale_, postscale_;
  const py::object process_set_;
  py::list handles_;
  StateMutex mutex_;        // guards what follows
  std::deque<Slot> slots_;  // a deque, so that their addresses are stable
  std::vector<int> by_hook_;
  std::vector<InFlight> in_flight_;
};

// The reference is weak, because a parameter owns its hook and must not own the reducer.
struct Hook {
  std::weak_ptr<GradientHooks> hooks;
  int number;
  py::object otherwise;
};

PyObject* RunHook(PyObject* capsule, PyObject* parameter) {
  const auto* const hook = static_cast<const Hook*>(PyCapsule_GetPointer(capsule, kHook));
  if (const auto hooks = hook->hooks.lock();
      hooks && hooks->SubmitByHook(hook->number, parameter)) {
    Py_RETURN_NONE;
  }
  return PyObject_CallOneArg(hook->otherwise.ptr(), parameter);
}

PyMethodDef run_hook = {"hvdlite_hook", &RunHook, METH_O, "Submits a parameter's gradient."};

py::object MakeHook(const std::shared_ptr<GradientHooks>& hooks, int number, py::object otherwise) {
  const py::capsule hook(
      new Hook{hooks, number, std::move(otherwise)}, kHook,
      [](PyObject* capsule) { delete static_cast<Hook*>(PyCapsule_GetPointer(capsule, kHook)); });
  PyObject* const function = PyCFunction_New(&run_hook, hook.ptr());
  if (function == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(function);
}

}  // namespace

void BindGradientHooks(py::module_& module) {
  attribute_names = {Interned("grad"), Interned("process_set_id")};
  py::class_<GradientHooks, std::shared_ptr<GradientHooks>>(module, "GradientHooks")
      .def(py::init<int, double, double, py::object>(), py::arg("op"), py::arg("prescale"),
           py::arg("postscale"), py::arg("process_set"))
      .def("add", &GradientHooks::Add, py::arg("name"),
           "Adds a parameter. Returns its number, counted from 0.")
      .def("hook", &MakeHook, py::arg("number"), py::arg("otherwise"),
           "Makes a function of the parameter. Call it once the gradient is complete; it calls "
           "otherwise(parameter) if the gradient cannot be submitted here.")
      .def("permit", &GradientHooks::Permit, py::arg("number"), py::arg("permitted"),
           "Whether the hook may submit the gradient, once per step. At first it may not.")
      .def("submit", &GradientHooks::Submit, py::arg("number"), py::arg("parameter"),
           "Submits without a hook. False: the gradient cannot be submitted here.")
      .def("take_submitted", &GradientHooks::TakeSubmitted,
           "The numbers that hooks have submitted since the last call or the step's begin.")
      .def("begin_step", &GradientHooks::BeginStep,
           "Begins a step: each hook may submit once more.")
      .def_property_readonly("handles", &GradientHooks::handles,
                             "The handles in flight, for wait_all().")
      .def("finish", &GradientHooks::Finish,
           "Call after wait_all(). Returns the numbers of parameters whose gradient was replaced "
           "since it was submitted.")
      .def("forget", &GradientHooks::Forget, "Forgets the gradients in flight and begins a step.");
}

}  // namespace hvdlite::bindings
