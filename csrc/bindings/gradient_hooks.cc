// GradientHooks: submits each gradient for an in-place allreduce from its autograd hook, without
// entering Python.
//
// A framework calls a hook for each parameter whose gradient is complete. That happens once per
// gradient and step, so the hook is native and costs a few hundred instructions; everything rarer
// is in hvdlite/adapter/hooks/reducer.py. All members are guarded by the interpreter lock.
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

namespace hvdlite::bindings {
namespace py = pybind11;

namespace {

constexpr const char* kHook = "hvdlite.hook";

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

py::object GradientOf(const py::handle& parameter) {
  static PyObject* const name = Interned("grad");
  return Attribute(parameter, name);
}

class GradientHooks {
 public:
  GradientHooks(int op, double prescale, double postscale, py::object process_set)
      : op_(op), prescale_(prescale), postscale_(postscale), process_set_(std::move(process_set)) {}

  int Add(std::string name) {
    slots_.push_back({.name = std::move(name)});
    return static_cast<int>(slots_.size()) - 1;
  }

  void Permit(int number, bool permitted) {
    slots_.at(static_cast<size_t>(number)).permitted = permitted;
  }

  // Submits the parameter's gradient. Returns false if that is not possible here; the caller then
  // uses its slower path.
  bool Submit(int number, const py::handle& parameter) noexcept {
    try {
      py::object gradient = GradientOf(parameter);
      static PyObject* const id = Interned("process_set_id");
      const py::object process_set = Attribute(process_set_, id);  // None until it is registered
      if (!PyLong_Check(process_set.ptr())) return false;

      Call call;
      hvdlite_operation& operation = call.operation;
      operation.kind = HVDLITE_ALLREDUCE;
      operation.op = op_;
      operation.prescale = prescale_;
      operation.postscale = postscale_;
      operation.process_set = process_set.cast<int>();
      operation.patient = 1;
      operation.name = slots_.at(static_cast<size_t>(number)).name.c_str();
      call.Borrow(gradient, gradient);
      int64_t handle = -1;
      if (hvdlite_submit(&operation, &handle) != HVDLITE_OK) return false;
      KeepAlive(handle, gradient, gradient, &call);
      handles_.append(handle);
      in_flight_.push_back(
          {number, py::reinterpret_borrow<py::object>(parameter), std::move(gradient)});
      return true;
    } catch (const std::exception&) {  // including Python's errors
      return false;
    }
  }

  // The hook's work, once per step. A second backward pass needs the count of passes, which Python
  // keeps.
  bool SubmitByHook(int number, const py::handle& parameter) noexcept {
    Slot& slot = slots_[static_cast<size_t>(number)];
    if (!slot.permitted || slot.submitted || !Submit(number, parameter)) return false;
    slot.submitted = true;
    by_hook_.push_back(number);
    return true;
  }

  std::vector<int> TakeSubmitted() { return std::exchange(by_hook_, {}); }

  void BeginStep() {
    by_hook_.clear();
    for (Slot& slot : slots_) slot.submitted = false;
  }

  py::list handles() const { return handles_; }

  std::vector<int> Finish() {
    std::vector<int> replaced;
    // Releasing a gradient may run any code.
    for (const InFlight& each : std::exchange(in_flight_, {})) {
      if (!GradientOf(each.parameter).is(each.gradient)) replaced.push_back(each.number);
    }
    return replaced;
  }

  void Forget() {
    handles_.attr("clear")();
    const auto released = std::exchange(in_flight_, {});
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

  const int op_;
  const double prescale_, postscale_;
  const py::object process_set_;
  std::deque<Slot> slots_;  // a deque, so that their addresses are stable
  std::vector<int> by_hook_;
  py::list handles_;
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
