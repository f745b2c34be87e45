// Functions in Python's fast calling convention, for those that run once per tensor. pybind11's
// dispatch of a dozen arguments costs as much as a small collective.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>
#include <new>

namespace hvdlite::bindings {

// Positional arguments, converted one by one. Throws Python's exception for an argument that does
// not convert.
class Arguments {
 public:
  Arguments(PyObject* const* given, Py_ssize_t count, Py_ssize_t wanted) : given_(given) {
    if (count != wanted) throw pybind11::type_error("wrong number of arguments");
  }

  pybind11::handle Object(int i) const { return given_[i]; }
  int Int(int i) const { return static_cast<int>(Long(i)); }
  int64_t Long(int i) const {
    const int64_t value = PyLong_AsLongLong(given_[i]);
    if (value == -1 && PyErr_Occurred() != nullptr) throw pybind11::error_already_set();
    return value;
  }
  double Double(int i) const {
    const double value = PyFloat_AsDouble(given_[i]);
    if (value == -1.0 && PyErr_Occurred() != nullptr) throw pybind11::error_already_set();
    return value;
  }
  // Null for None. Valid as long as the argument.
  const char* TextOrNull(int i, const char* what) const {
    if (given_[i] == Py_None) return nullptr;
    if (!PyUnicode_Check(given_[i])) {
      PyErr_Format(PyExc_TypeError, "%s must be a str or None, not %s", what,
                   Py_TYPE(given_[i])->tp_name);
      throw pybind11::error_already_set();
    }
    const char* const text = PyUnicode_AsUTF8(given_[i]);
    if (text == nullptr) throw pybind11::error_already_set();
    return text;
  }

 private:
  PyObject* const* given_;
};

// Runs the body of such a function: C++ exceptions become Python's.
template <typename Body>  // NOLINTNEXTLINE(bugprone-exception-escape): all that can come is caught
PyObject* Guarded(const Body& body) noexcept {
  try {
    return body().release().ptr();
  } catch (pybind11::error_already_set& error) {
    error.restore();
  } catch (const pybind11::builtin_exception& error) {
    error.set_error();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

template <typename Function>
PyCFunction AsMethod(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

}  // namespace hvdlite::bindings
