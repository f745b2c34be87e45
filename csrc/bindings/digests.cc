// Digests of tensors in host memory, for hvdlite/adapter/agreement/drift_guard.py.
#include <pybind11/stl.h>

#include <deque>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/tensors.h"
#include "bindings/unlocked.h"

namespace hvdlite::bindings {
namespace py = pybind11;

namespace {

int64_t BytesOf(const hvdlite_tensor& tensor) {
  int64_t bytes = hvdlite_dtype_size(tensor.dtype);
  for (int32_t i = 0; i < tensor.ndim; ++i) bytes *= tensor.shape[i];
  return bytes;
}

std::vector<uint64_t> Digests(const std::vector<py::object>& tensors) {
  std::deque<BorrowedTensor> lent;  // a deque, because they do not move
  for (const py::object& tensor : tensors) {
    BorrowedTensor& each = lent.emplace_back();
    each.Borrow(tensor);
    if (!each.contiguous || each.on_gpu())
      throw py::type_error("digests are of contiguous tensors in host memory");
  }
  std::vector<uint64_t> found;
  found.reserve(lent.size());
  const Unlocked unlocked;
  for (const BorrowedTensor& each : lent)
    found.push_back(hvdlite_digest(each.tensor.data, BytesOf(each.tensor)));
  return found;
}

}  // namespace

void BindDigests(py::module_& module) {
  module.def("digests", &Digests, py::arg("tensors"),
             "A 64-bit digest of the bytes of each tensor, for comparison with other ranks.");
}

}  // namespace hvdlite::bindings
