// Sparse allreduces: what hvdlite/adapter calls when a rank sends some elements of a tensor.
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <utility>

#include "bindings/bindings.h"
#include "bindings/borrowed.h"
#include "bindings/tensors.h"

namespace hvdlite::bindings {
namespace py = pybind11;

namespace {

// The memory of an operation: arrays of equal length, and what keeps them alive.
class SparseMemory {
 public:
  // None: null.
  float* Lend(const py::object& array, bool written) {
    if (array.is_none()) return nullptr;
    BorrowedTensor lent;
    lent.Borrow(array);
    const hvdlite_tensor& tensor = lent.tensor;
    if (tensor.dtype != HVDLITE_FLOAT32 || !lent.contiguous || lent.on_gpu() ||
        (written && !lent.writable))
      throw py::type_error("the memory of a sparse allreduce is contiguous float32 on the CPU");
    int64_t count = 1;
    for (int32_t i = 0; i < tensor.ndim; ++i) count *= tensor.shape[i];
    if (count_ >= 0 && count != count_) throw py::value_error("the arrays differ in length");
    count_ = count;
    kept_.append(array);
    if (lent.owner) kept_.append(lent.owner);
    return static_cast<float*>(tensor.data);
  }
  int64_t count() const { return count_; }
  py::list Keep() && { return std::move(kept_); }

 private:
  int64_t count_ = -1;
  py::list kept_;
};

int64_t SubmitSparse(int op, int set, const std::optional<std::string>& name,
                     const py::object& input, const py::object& output, double prescale,
                     double postscale, int64_t taken, const py::object& residual,
                     const py::object& new_residual, const py::object& velocity,
                     const py::object& new_velocity, float momentum, bool nesterov, bool masking,
                     bool patient) {
  SparseMemory memory;
  hvdlite_sparse sparse{};
  sparse.taken = taken;
  sparse.residual = memory.Lend(residual, /*written=*/false);
  sparse.new_residual = memory.Lend(new_residual, /*written=*/true);
  sparse.velocity = memory.Lend(velocity, /*written=*/false);
  sparse.new_velocity = memory.Lend(new_velocity, /*written=*/true);
  sparse.count = memory.count();
  sparse.momentum = momentum;
  sparse.nesterov = nesterov ? 1 : 0;
  sparse.masking = masking ? 1 : 0;
  Call call;
  call.DescribeAllreduce(op, set, name, prescale, postscale, patient);
  call.operation.sparse = &sparse;
  call.Borrow(input, output);
  call.memory = std::move(memory).Keep();
  return SubmitAndKeep(input, output, &call);
}

}  // namespace

void BindSparse(py::module_& module) {
  module.def("submit_sparse", &SubmitSparse, py::arg("op"), py::arg("process_set"), py::arg("name"),
             py::arg("input"), py::arg("output"), py::arg("prescale"), py::arg("postscale"),
             py::arg("taken"), py::arg("residual"), py::arg("new_residual"),
             py::arg("velocity") = py::none(), py::arg("new_velocity") = py::none(),
             py::arg("momentum") = 0.0F, py::arg("nesterov") = false, py::arg("masking") = false,
             py::arg("patient") = false,
             "An allreduce to which each rank contributes its largest elements, and remembers the "
             "others. Returns a handle for wait().");
}

}  // namespace hvdlite::bindings
