// Departures: gradients that leave as soon as they are there, an allreduce in place each.
//
// A framework calls a hook for each parameter whose gradient is complete. This is what runs once per gradient and step, so
// it is here, in a few hundred instructions; all that is rarer is the caller's (hvdlite/torch/reducer.py). Everything is
// guarded by the interpreter lock.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <deque>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/loans.h"

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

class Departures {
 public:
  Departures(int op, double prescale, double postscale, py::object process_set)
      : op_(op), prescale_(prescale), postscale_(postscale), process_set_(std::move(process_set)) {}

  int Add(std::string name) {
    travellers_.push_back({.name = std::move(name)});
    return static_cast<int>(travellers_.size()) - 1;
  }

  void LetHook(int number, bool permitted) { travellers_.at(static_cast<size_t>(number)).permitted = permitted; }

  // Submits the parameter's gradient. False if it cannot leave like this: the caller, who has other ways, will see why.
  bool Leave(int number, const py::handle& parameter) noexcept {
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
      operation.name = travellers_.at(static_cast<size_t>(number)).name.c_str();
      call.Borrow(gradient, gradient);
      int64_t handle = -1;
      if (hvdlite_submit(&operation, &handle) != HVDLITE_OK) return false;
      Borrow(handle, gradient, gradient, &call);
      natives_.append(handle);
      gone_.push_back({number, py::reinterpret_borrow<py::object>(parameter), std::move(gradient)});
      return true;
    } catch (const std::exception&) {  // Python's errors, too
      return false;
    }
  }

  // What the hook does. Once per step: what comes again needs its step's count.
  bool LeaveByHook(int number, const py::handle& parameter) noexcept {
    Traveller& traveller = travellers_[static_cast<size_t>(number)];
    if (!traveller.permitted || traveller.left || !Leave(number, parameter)) return false;
    traveller.left = true;
    by_hook_.push_back(number);
    return true;
  }

  std::vector<int> TakeLeft() { return std::exchange(by_hook_, {}); }

  void Begin() {
    by_hook_.clear();
    for (Traveller& traveller : travellers_) traveller.left = false;
  }

  py::list natives() const { return natives_; }

  std::vector<int> Land() {
    std::vector<int> replaced;
    // What is let go may run any code.
    for (const Gone& gone : std::exchange(gone_, {})) {
      if (!GradientOf(gone.parameter).is(gone.gradient)) replaced.push_back(gone.number);
    }
    return replaced;
  }

  void Forget() {
    natives_.attr("clear")();
    const auto gone = std::exchange(gone_, {});
    Begin();
  }

 private:
  struct Traveller {
    std::string name;
    bool permitted = false;  // to leave by its hook
    bool left = false;  // by its hook, in this step
  };
  struct Gone {
    int number;
    py::object parameter, gradient;
  };

  const int op_;
  const double prescale_, postscale_;
  const py::object process_set_;
  std::deque<Traveller> travellers_;  // stay where they are
  std::vector<int> by_hook_;
  py::list natives_;
  std::vector<Gone> gone_;
};

// Weak: parameters would keep for ever whoever reduces them.
struct Hook {
  std::weak_ptr<Departures> departures;
  int number;
  py::object otherwise;
};

PyObject* RunHook(PyObject* capsule, PyObject* parameter) {
  const auto* const hook = static_cast<const Hook*>(PyCapsule_GetPointer(capsule, kHook));
  if (const auto departures = hook->departures.lock(); departures && departures->LeaveByHook(hook->number, parameter)) {
    Py_RETURN_NONE;
  }
  return PyObject_CallOneArg(hook->otherwise.ptr(), parameter);
}

PyMethodDef run_hook = {"hvdlite_hook", &RunHook, METH_O, "Has a parameter's gradient reduced."};

py::object MakeHook(const std::shared_ptr<Departures>& departures, int number, py::object otherwise) {
  const py::capsule hook(new Hook{departures, number, std::move(otherwise)}, kHook,
                         [](PyObject* capsule) { delete static_cast<Hook*>(PyCapsule_GetPointer(capsule, kHook)); });
  PyObject* const function = PyCFunction_New(&run_hook, hook.ptr());
  if (function == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(function);
}

}  // namespace

void BindDepartures(py::module_& module) {
  py::class_<Departures, std::shared_ptr<Departures>>(module, "Departures")
      .def(py::init<int, double, double, py::object>(), py::arg("op"), py::arg("prescale"), py::arg("postscale"),
           py::arg("process_set"))
      .def("add", &Departures::Add, py::arg("name"), "A parameter. Returns its number; they count from 0.")
      .def("hook", &MakeHook, py::arg("number"), py::arg("otherwise"),
           "To be called with the parameter once its gradient is complete; calls otherwise(parameter) for what cannot "
           "leave.")
      .def("let_hook", &Departures::LetHook, py::arg("number"), py::arg("permitted"),
           "Whether the gradient may leave by its hook, once per step. At first it may not.")
      .def("leave", &Departures::Leave, py::arg("number"), py::arg("parameter"), "Without a hook. False: it cannot.")
      .def("left", &Departures::TakeLeft, "Who has left by a hook since this was last asked, or the step began.")
      .def("begin", &Departures::Begin, "A step: each gradient may leave by its hook once more.")
      .def_property_readonly("natives", &Departures::natives, "The handles of what is under way, for wait_all().")
      .def("land", &Departures::Land,
           "After wait_all(): the numbers of those whose parameter has another gradient by now than the one that left.")
      .def("forget", &Departures::Forget, "What is under way, and begins a step.");
}

}  // namespace hvdlite::bindings
