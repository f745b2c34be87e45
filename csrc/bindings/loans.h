// What operations under way have borrowed from Python: the engine works on it, whatever the caller does.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>

#include "api/hvdlite.h"
#include "bindings/tensors.h"

namespace hvdlite::bindings {

// One operation as Python gives it, with what it borrows while it is described. Stays where it is.
struct Call {
  // The tensors of an operation whose kind is known. Output may be None (to be allocated) or the input itself (in place).
  // Throws NotContiguous(), TypeError or ValueError.
  void Borrow(const pybind11::handle& in, const pybind11::handle& out);

  hvdlite_operation operation{};
  Lent input;
  Lent output;
};

// Notes that the operation with this handle has been started: it keeps what the call has borrowed.
void Borrow(int64_t handle, const pybind11::handle& input, const pybind11::handle& output, Call* call);

// The operation is done, and on a GPU: what its tensors' framework does from now on comes after it. Waits for the device where
// the framework does not say on which stream it works. Throws what Python's signal handlers do; else says how it went.
hvdlite_code Follow(int64_t handle);

// The operation is over.
void GiveBack(int64_t handle);

// All are.
void GiveAllBack();

// The exception that asks for a contiguous copy.
PyObject* NotContiguous();

}  // namespace hvdlite::bindings
