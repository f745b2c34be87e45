#include "bindings/exchange.h"

#include <unordered_map>

#include "bindings/unlocked.h"

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
  const auto* table = static_cast<const dlpack::Exchange*>(
      PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  return table->version.major == 1 && table->tensor_from_object != nullptr ? table : nullptr;
}

}  // namespace

const dlpack::Exchange* ExchangeOf(const py::handle& object) {
  // By type. Each type is kept alive, so that its address stays its own. Never freed. Programs have
  // few tensor types. If a program makes thousands, the later ones are not stored.
  static auto* const tables = new std::unordered_map<PyTypeObject*, const dlpack::Exchange*>;
  static StateMutex mutex;
  constexpr size_t kMostTypes = 256;
  PyTypeObject* const type = Py_TYPE(object.ptr());
  {
    const StateLock lock(mutex);
    if (const auto known = tables->find(type); known != tables->end()) return known->second;
  }
  const dlpack::Exchange* const table = TableOf(type);
  const StateLock lock(mutex);
  if (tables->size() < kMostTypes && tables->emplace(type, table).second)
    Py_INCREF(reinterpret_cast<PyObject*>(type));
  return table;
}

bool CurrentStream(const dlpack::Exchange& exchange, int device, void** stream) {
  if (exchange.current_stream == nullptr) return false;
  if (exchange.current_stream(dlpack::kCuda, device, stream) == 0) return true;
  PyErr_Clear();
  return false;
}

bool BorrowByExchange(const py::handle& object, dlpack::Tensor* out) {
  const dlpack::Exchange* const table = ExchangeOf(object);
  if (table == nullptr) return false;
  if (table->tensor_from_object(object.ptr(), out) == 0) return true;
  PyErr_Clear();
  return false;
}

}  // namespace hvdlite::bindings
