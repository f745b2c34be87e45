// Sparse gradients in host memory, for hvdlite/adapter/compression/selecting.py.
#include <optional>
#include <tuple>

#include "api/sparse.h"
#include "bindings/bindings.h"
#include "bindings/tensors.h"
#include "bindings/unlocked.h"

namespace hvdlite::bindings {
namespace py = pybind11;

namespace {

// A tensor in host memory, of the one type that it must have.
template <typename Element, int32_t kDType>
class Lent {
 public:
  Lent(const py::handle& object, bool written) {
    tensor_.Borrow(object);
    if (tensor_.tensor.dtype != kDType || !tensor_.contiguous || tensor_.on_gpu() ||
        (written && !tensor_.writable))
      throw py::type_error("selecting is for contiguous float32 in host memory");
  }
  Element* at() const { return static_cast<Element*>(tensor_.tensor.data); }
  int64_t count() const {
    int64_t count = 1;
    for (int32_t i = 0; i < tensor_.tensor.ndim; ++i) count *= tensor_.tensor.shape[i];
    return count;
  }
  // ValueError unless there are so many elements.
  Element* Of(int64_t count) const {
    if (this->count() != count) throw py::value_error("the arrays differ in length");
    return at();
  }

 private:
  BorrowedTensor tensor_;
};
using Floats = Lent<float, HVDLITE_FLOAT32>;
using Positions = Lent<int32_t, HVDLITE_INT32>;

// Without velocities (None) there is no momentum.
void Select(const py::object& gradient, const py::object& residual, const py::object& new_residual,
            const py::object& values, const py::object& positions, const py::object& velocity,
            const py::object& new_velocity, float momentum, bool nesterov, bool masking) {
  const Floats from(gradient, false), kept(residual, false), next(new_residual, true);
  const Floats taken(values, true);
  const Positions places(positions, true);
  std::optional<Floats> speed, next_speed;
  hvdlite_selection selection{};
  selection.count = from.count();
  selection.gradient = from.at();
  selection.residual = kept.Of(from.count());
  selection.new_residual = next.Of(from.count());
  if (!velocity.is_none()) {
    selection.velocity = speed.emplace(velocity, false).Of(from.count());
    selection.new_velocity = next_speed.emplace(new_velocity, true).Of(from.count());
  }
  selection.momentum = momentum;
  selection.nesterov = nesterov ? 1 : 0;
  selection.masking = masking ? 1 : 0;
  selection.taken = taken.count();
  selection.values = taken.at();
  selection.positions = places.Of(taken.count());
  ThrowIfError(WithoutLock([&] { return hvdlite_select(&selection); }));
}

void Spread(const py::object& values, const py::object& positions, float factor,
            const py::object& output) {
  const Floats given(values, false), sums(output, true);
  const Positions places(positions, false);
  const int32_t* const at = places.Of(given.count());
  ThrowIfError(WithoutLock([&] {
    return hvdlite_spread(given.at(), at, given.count(), factor, sums.count(), sums.at());
  }));
}

std::tuple<uint64_t, uint64_t> Selections() {
  uint64_t selected = 0, spread = 0;
  hvdlite_selections(&selected, &spread);
  return {selected, spread};
}

}  // namespace

void BindSparse(py::module_& module) {
  module.def("select", &Select, py::arg("gradient"), py::arg("residual"), py::arg("new_residual"),
             py::arg("values"), py::arg("positions"), py::arg("velocity") = py::none(),
             py::arg("new_velocity") = py::none(), py::arg("momentum") = 0.0F,
             py::arg("nesterov") = false, py::arg("masking") = false,
             "Advances a memory and takes the largest elements: see csrc/kernels/select.h.");
  module.def("spread", &Spread, py::arg("values"), py::arg("positions"), py::arg("factor"),
             py::arg("output"), "The sum of elements at their positions, and zeros elsewhere.");
  module.def("selections", &Selections, "How many times each of the two has run.");
}

}  // namespace hvdlite::bindings
