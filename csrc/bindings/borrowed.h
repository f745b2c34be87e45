// Keeps the Python objects of in-flight operations alive: the engine reads and writes their memory.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/hvdlite.h"
#include "bindings/tensors.h"

namespace hvdlite::bindings {

// One operation as Python passes it, with the tensors that it borrows. Not movable: operation
// points into the tensors.
struct Call {
  // Borrows the tensors; operation.kind is set before. `out` may be None (hvdlite allocates the
  // result) or `in` (in place). Throws NotContiguous(), TypeError or ValueError.
  void Borrow(const pybind11::handle& in, const pybind11::handle& out);
  // The residual of an encoded operation; None: there is none.
  void BorrowResidual(const pybind11::handle& object);
  // An allreduce. `name` outlives the call.
  void DescribeAllreduce(int op, int set, const std::optional<std::string>& name, double prescale,
                         double postscale, bool patient);

  hvdlite_operation operation{};
  BorrowedTensor input;
  BorrowedTensor output;
  BorrowedTensor residual;
  pybind11::object residual_object;  // keeps it alive, as `residual.owner` does
  pybind11::object memory;           // of a sparse operation: keeps it alive
};

// Keeps what the call has borrowed until the operation with this handle is released.
void KeepAlive(int64_t handle, const pybind11::handle& input, const pybind11::handle& output,
               Call* call);

// The same for a list. `tensors` is what ReleaseBorrowed returns; `one` is one of them.
void KeepAllAlive(int64_t handle, pybind11::object tensors, std::vector<pybind11::object> owners,
                  const BorrowedTensor& one);

// Blocks until the operation is done. Returns (result or None, received splits, number). Releases
// the handle and what it has borrowed. (operations.cc)
pybind11::object Finish(int64_t handle);

// What handles of operations in place have beyond those of the core, so that Python tells them from
// its own (hvdlite/core/handles.py).
constexpr int64_t kInPlace = int64_t{1} << 40;

// Submits the call, which has borrowed these tensors, and keeps them. Returns the handle.
int64_t SubmitAndKeep(const pybind11::handle& input, const pybind11::handle& output, Call* call);

// Orders the framework's later work behind a done operation on a GPU. Makes the framework's stream
// wait, or, if the framework reports no stream, blocks until the device has finished. Returns the
// operation's status; throws what Python's signal handlers throw.
hvdlite_code Follow(int64_t handle);

// Releases the tensors that one operation has borrowed. Returns its input; null: there is none.
pybind11::object ReleaseBorrowed(int64_t handle);

// The same for all operations.
void ReleaseAllBorrowed();

// The exception that asks for a contiguous copy.
PyObject* NotContiguous();

}  // namespace hvdlite::bindings
