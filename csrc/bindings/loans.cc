#include "bindings/loans.h"

#include <unordered_map>
#include <utility>

#include "bindings/exchange.h"
#include "bindings/unlocked.h"

namespace hvdlite::bindings {
namespace py = pybind11;

namespace {

// Read-only comes first: who is asked for a contiguous copy will want to write its result back.
const hvdlite_tensor& Usable(Lent* lent, const py::handle& object, bool written) {
  lent->Borrow(object);
  if (written && !lent->writable) {
    throw py::value_error(
        "the tensor is read-only, so the result cannot be written into it; pass a copy, or use the form without _");
  }
  if (!lent->contiguous) {
    PyErr_SetString(NotContiguous(), "the tensor must be contiguous");
    throw py::error_already_set();
  }
  return lent->tensor;
}

struct Loan {
  py::object input, output, input_owner, output_owner;
  const dlpack::Exchange* exchange;  // on a GPU: who tells the stream
  int device;
};

// By handle. Guarded by the interpreter lock. Never destroyed: the interpreter may be gone before the process ends.
std::unordered_map<int64_t, Loan>& Loans() {
  static auto* const loans = new std::unordered_map<int64_t, Loan>;
  return *loans;
}

}  // namespace

void Call::Borrow(const py::handle& in, const py::handle& out) {
  const bool in_place = !in.is_none() && out.is(in);
  if (!in.is_none()) {
    operation.input = Usable(&input, in, /*written=*/in_place);
  } else if (hvdlite_operation_result(operation.kind) != HVDLITE_RESULT_NONE) {
    throw py::type_error("expected a tensor, got None");
  }
  operation.stream = input.producer;
  if (out.is_none()) return;
  operation.output = in_place ? input.tensor : Usable(&output, out, /*written=*/true);
  static char nothing;  // an empty tensor may have no address, which would mean: allocate
  if (operation.output.data == nullptr) operation.output.data = &nothing;
}

void Borrow(int64_t handle, const py::handle& input, const py::handle& output, Call* call) {
  Loans().insert_or_assign(handle,
                           Loan{py::reinterpret_borrow<py::object>(input), py::reinterpret_borrow<py::object>(output),
                                std::move(call->input.owner), std::move(call->output.owner), call->input.exchange,
                                call->input.tensor.device_index});
}

hvdlite_code Follow(int64_t handle) {
  void* stream = nullptr;
  const auto loan = Loans().find(handle);
  if (loan != Loans().end() && loan->second.exchange != nullptr &&
      CurrentStream(*loan->second.exchange, loan->second.device, &stream)) {
    return hvdlite_follow(handle, stream);
  }
  for (;;) {
    int32_t landed = 0;
    hvdlite_code code;
    {
      const Unlocked unlocked;
      code = hvdlite_land(handle, kSlice, &landed);
    }
    if (code != HVDLITE_OK || landed) return code;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

// The loan outlives the lock of the table: what it lets go may run any code.
void GiveBack(int64_t handle) {
  const auto loan = Loans().extract(handle);
}

void GiveAllBack() {
  const auto loans = std::exchange(Loans(), {});
}

// Never freed: the interpreter may be gone before the process ends.
PyObject* NotContiguous() {
  static PyObject* const type = PyErr_NewExceptionWithDoc(
      "hvdlite._core.NotContiguous", "Make a contiguous copy of the tensor, and ask again.", PyExc_ValueError, nullptr);
  return type;
}

}  // namespace hvdlite::bindings
