#include "bindings/exchange.h"

#include <unordered_map>

namespace hvdlite::bindings {
namespace py = pybind11;

namespace {

const dlpack::Exchange* TableOf(PyTypeObject* type) {
  const auto capsule = py::reinterpret_steal<py::object>(
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__dlpack_c_exchange_api__"));
  if (!capsule || !PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) {
    PyErr_Clear();
    return nullptr;
  }
  const auto* table = static_cast<const dlpack::Exchange*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  return table->version.major == 1 && table->tensor_from_object != nullptr ? table : nullptr;
}

}  // namespace

bool BorrowByExchange(const py::handle& object, dlpack::Tensor* out) {
  // By type, which is kept alive so that its address stays its own. Guarded by the interpreter lock, and left to the
  // process's end. Programs have few tensor types; one that makes them by the thousand is not remembered.
  static auto* const tables = new std::unordered_map<PyTypeObject*, const dlpack::Exchange*>;
  constexpr size_t kMostTypes = 256;
  PyTypeObject* const type = Py_TYPE(object.ptr());
  const dlpack::Exchange* table;
  if (const auto known = tables->find(type); known != tables->end()) {
    table = known->second;
  } else {
    table = TableOf(type);
    if (tables->size() < kMostTypes) {
      Py_INCREF(reinterpret_cast<PyObject*>(type));
      tables->emplace(type, table);
    }
  }
  if (table == nullptr) return false;
  if (table->tensor_from_object(object.ptr(), out) == 0) return true;
  PyErr_Clear();
  return false;
}

}  // namespace hvdlite::bindings
