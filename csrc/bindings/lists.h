// LentTensors: tensors of a list, lent for an allreduce in place.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <vector>

#include "bindings/borrowed.h"

namespace hvdlite::bindings {

class LentTensors {
 public:
  // Returns false if one of them cannot be lent as it is, or overlaps another; or is not of the
  // type, or is lent by a call of Python. `type` null: any type, in any way.
  bool Lend(PyObject* const* tensors, size_t count, PyObject* type);
  // The list's tensors. Valid as long as this object.
  void Describe(hvdlite_list* list) const;
  // Keeps them until the operation is released; `tensors` is what ReleaseBorrowed returns.
  void KeepFor(int64_t handle, pybind11::object tensors);

 private:
  bool LendEach(PyObject* const* tensors, size_t count, PyObject* type);

  std::unique_ptr<BorrowedTensor[]> borrowed_;
  std::vector<hvdlite_tensor> views_;
};

}  // namespace hvdlite::bindings
