// GradientHooks: submits gradients for an in-place allreduce from their autograd hooks, without
// entering Python.
//
// A framework calls a hook for each parameter whose gradient is complete. That happens once per
// gradient and step, so the hook is native and costs a few hundred instructions; everything rarer
// is in hvdlite/adapter/hooks/reducer.py.
//
// Small gradients that arrive one after another form lists: the last one's hook submits the list,
// which is one operation. No rank needs to have the same lists (engine/list.h).
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/borrowed.h"
#include "bindings/lists.h"
#include "bindings/unlocked.h"

namespace hvdlite::bindings {
namespace py = pybind11;

namespace {

constexpr const char* kHook = "hvdlite.hook";

// A list is full when its gradients have so many bytes. Larger lists would overlap less of the
// backward pass, and their bytes cost more than the number of their tensors.
constexpr int64_t kFull = 1 << 20;

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

// Lists that were taken apart in so many steps cost more than they save.
constexpr int kMostStepsApart = 8;

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
    const bool before = std::exchange(slots_.at(static_cast<size_t>(number)).permitted, permitted);
    changed_ |= before != permitted;
  }

  // Submits the parameter's gradient. Returns false if that is not possible here; the caller then
  // uses its slower path.
  bool Submit(int number, const py::handle& parameter) noexcept {
    try {
      return SubmitGradient(number, parameter, Attribute(parameter, attribute_names.grad));
    } catch (const std::exception&) {  // including Python's errors
      return false;
    }
  }

  bool SubmitGradient(int number, const py::handle& parameter, py::object gradient) noexcept {
    try {
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
    List* list = nullptr;
    if (!Begin(number, &list)) return false;
    const bool submitted =
        list != nullptr ? Put(number, parameter, list) : Submit(number, parameter);
    const StateLock lock(mutex_);
    if (submitted) {
      by_hook_.push_back(number);
    } else {
      slots_[static_cast<size_t>(number)].submitted = false;
    }
    return submitted;
  }

  // Forms lists of what hooks have submitted in this step, in this order, if hooks may submit
  // others than before. Gives them up if other ranks do not have them.
  void FormLists() {
    std::vector<InFlight> arrived;
    const int64_t apart = hvdlite_lists_taken_apart();
    {
      const StateLock lock(mutex_);
      const bool were_apart = std::exchange(taken_apart_, apart) < apart && !lists_.empty();
      if (were_apart && ++steps_apart_ == kMostStepsApart) {
        lists_.clear();
        for (Slot& slot : slots_) slot.list = nullptr;
      }
      if (!std::exchange(changed_, false)) return;
      steps_apart_ = 0;
      for (const InFlight& each : in_flight_) {
        if (slots_[static_cast<size_t>(each.number)].permitted) arrived.push_back(each);
      }
      lists_.clear();
      for (Slot& slot : slots_) slot.list = nullptr;
    }
    List* open = nullptr;
    hvdlite_tensor like{};
    int64_t bytes = 0;
    for (const InFlight& each : arrived) {
      BorrowedTensor lent;
      try {
        lent.Borrow(each.gradient);
      } catch (const std::exception&) {
        PyErr_Clear();
        continue;
      }
      const auto mine = static_cast<int64_t>(BytesOf(lent.tensor));
      if (mine >= kFull) continue;
      if (open == nullptr || bytes >= kFull || like.dtype != lent.tensor.dtype ||
          like.device_kind != lent.tensor.device_kind) {
        open = &lists_.emplace_back();
        open->on_gpu = lent.on_gpu();
        like = lent.tensor;
        bytes = 0;
      }
      bytes += mine;
      open->members.push_back(each.number);
    }
    const StateLock lock(mutex_);
    std::erase_if(lists_, [](const List& list) { return list.members.size() < 2; });
    for (List& list : lists_) NameLocked(&list);
  }

  // Submits alone what waits for the rest of its list. Returns the numbers that cannot be submitted
  // here. What was missing is in no list any more.
  std::vector<int> Flush() {
    std::vector<InFlight> waiting;
    {
      const StateLock lock(mutex_);
      for (List& list : lists_) {
        if (list.waiting.empty()) continue;
        // A complete one has been refused.
        const bool was_complete = list.waiting.size() == list.members.size();
        std::move(list.waiting.begin(), list.waiting.end(), std::back_inserter(waiting));
        list.waiting.clear();
        std::erase_if(list.members, [&](int number) {
          Slot& slot = slots_[static_cast<size_t>(number)];
          if (slot.submitted && !was_complete) return false;
          slot.list = nullptr;
          return true;
        });
        NameLocked(&list);
      }
    }
    std::vector<int> refused;
    for (const InFlight& each : waiting) {
      if (!SubmitGradient(each.number, each.parameter, each.gradient))
        refused.push_back(each.number);
    }
    return refused;
  }

  // Whether gradients are in flight, or wait for the rest of their list.
  bool under_way() {
    if (!handles_.empty()) return true;
    const StateLock lock(mutex_);
    return std::any_of(lists_.begin(), lists_.end(),
                       [](const List& list) { return !list.waiting.empty(); });
  }

  std::vector<int> TakeSubmitted() {
    const StateLock lock(mutex_);
    return std::exchange(by_hook_, {});
  }

  void BeginStep() {
    std::vector<InFlight> released;  // their end may run any code
    const StateLock lock(mutex_);
    by_hook_.clear();
    for (Slot& slot : slots_) slot.submitted = false;
    for (List& list : lists_) {
      std::move(list.waiting.begin(), list.waiting.end(), std::back_inserter(released));
      list.waiting.clear();
    }
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
  struct InFlight {
    int number;
    py::object parameter, gradient;
    void* stream = nullptr;  // of a gradient on a GPU that waits for the rest of its list
  };
  using Names = std::unique_ptr<hvdlite_names, decltype(&hvdlite_free_names)>;
  struct List {
    std::vector<int> members;  // in the order in which they are submitted
    Names names{nullptr, &hvdlite_free_names};
    bool on_gpu = false;
    std::vector<InFlight> waiting;  // whose hooks have run in this step
  };
  struct Slot {
    std::string name;
    bool permitted = false;  // its hook may submit it
    bool submitted = false;  // its hook has submitted it in this step, or put it into its list
    List* list = nullptr;
    size_t place = 0;  // in the list
  };

  const char* NameOf(int number) {
    const StateLock lock(mutex_);
    return slots_.at(static_cast<size_t>(number)).name.c_str();
  }

  // Whether the hook may submit now. It may once per step. Sets the list to put it into.
  bool Begin(int number, List** list) {
    const StateLock lock(mutex_);
    Slot& slot = slots_[static_cast<size_t>(number)];
    *list = slot.list;
    return slot.permitted && !std::exchange(slot.submitted, true);
  }

  // Puts the gradient into its list, and submits the list if it is complete. If that fails, the
  // gradients wait for Flush.
  bool Put(int number, const py::handle& parameter, List* list) noexcept {
    try {
      py::object gradient = Attribute(parameter, attribute_names.grad);
      auto kept = py::reinterpret_borrow<py::object>(parameter);
      BorrowedTensor lent;
      if (list->on_gpu) lent.Borrow(gradient);
      std::vector<InFlight> all;
      {
        const StateLock lock(mutex_);
        list->waiting.push_back({number, std::move(kept), std::move(gradient), lent.producer});
        if (list->waiting.size() < list->members.size()) return true;
        all = std::move(list->waiting);
        list->waiting.clear();
      }
      const bool submitted = SubmitList(*list, &all);
      const StateLock lock(mutex_);
      std::move(all.begin(), all.end(), std::back_inserter(submitted ? in_flight_ : list->waiting));
      return true;
    } catch (const std::exception&) {  // including Python's errors
      return false;
    }
  }

  // The order of the list is that of its members, whatever the order of this step.
  bool SubmitList(const List& list, std::vector<InFlight>* all) noexcept {
    try {
      return SubmitListOrThrow(list, all);
    } catch (const std::exception&) {  // including Python's errors
      return false;
    }
  }

  bool SubmitListOrThrow(const List& list, std::vector<InFlight>* all) {
    const py::object process_set = Attribute(process_set_, attribute_names.process_set_id);
    if (!PyLong_Check(process_set.ptr())) return false;
    // The hook that completes the list knows its own stream only. At the end of the backward pass
    // torch makes the program's stream wait for all.
    const auto is_of_other_stream = [all](const InFlight& each) {
      return each.stream != all->back().stream;
    };
    if (std::any_of(all->begin(), all->end(), is_of_other_stream)) return false;
    std::sort(all->begin(), all->end(), [this](const InFlight& a, const InFlight& b) {
      return slots_[static_cast<size_t>(a.number)].place <
             slots_[static_cast<size_t>(b.number)].place;
    });
    py::tuple gradients(all->size());
    for (size_t i = 0; i < all->size(); ++i) gradients[i] = (*all)[i].gradient;
    LentTensors lent;
    if (!lent.Lend(PySequence_Fast_ITEMS(gradients.ptr()), all->size(), nullptr)) return false;
    hvdlite_list operation{};
    operation.op = op_;
    operation.prescale = prescale_;
    operation.postscale = postscale_;
    operation.process_set = process_set.cast<int>();
    operation.patient = 1;
    operation.names = list.names.get();
    lent.Describe(&operation);
    int64_t handle = HVDLITE_NO_LIST;
    if (hvdlite_submit_list(&operation, &handle) != HVDLITE_OK || handle < 0) return false;
    lent.KeepFor(handle, std::move(gradients));
    handles_.append(handle);
    return true;
  }

  void NameLocked(List* list) {
    std::vector<const char*> names;
    for (const int number : list->members) {
      Slot& slot = slots_[static_cast<size_t>(number)];
      slot.list = list;
      slot.place = names.size();
      names.push_back(slot.name.c_str());
    }
    list->names.reset(hvdlite_make_names(names.data(), static_cast<int32_t>(names.size())));
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
  std::deque<Slot> slots_;  // deques, so that their addresses are stable
  std::deque<List> lists_;
  int64_t taken_apart_ = 0;  // by the core, up to the last step
  int steps_apart_ = 0;
  bool changed_ = false;  // hooks may submit others than when lists were formed
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
      .def("form_lists", &GradientHooks::FormLists,
           "Call at the end of a step, before finish(): puts small gradients that have arrived one "
           "after another into lists.")
      .def("flush", &GradientHooks::Flush,
           "Submits what waits for the rest of its list. Returns the numbers that cannot be "
           "submitted here.")
      .def_property_readonly("under_way", &GradientHooks::under_way)
      .def_property_readonly("handles", &GradientHooks::handles,
                             "The handles in flight, for wait_all().")
      .def("finish", &GradientHooks::Finish,
           "Call after wait_all(). Returns the numbers of parameters whose gradient was replaced "
           "since it was submitted.")
      .def("forget", &GradientHooks::Forget, "Forgets the gradients in flight and begins a step.");
}

}  // namespace hvdlite::bindings
