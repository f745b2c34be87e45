#include "bindings/device_array.h"

#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bindings/bindings.h"
#include "bindings/dlpack.h"

namespace hvdlite::bindings {
namespace py = pybind11;

namespace {

// Shared by the array and everything made from it. Frameworks release it in any thread, without
// Python's lock.
struct Memory {
  explicit Memory(hvdlite_device_memory* m) : memory(m) {}
  ~Memory() { hvdlite_free_memory(memory); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  hvdlite_device_memory* const memory;
};

dlpack::DataType TypeOf(int32_t dtype) {
  const auto bits = static_cast<uint8_t>(8 * hvdlite_dtype_size(dtype));
  if (dtype == HVDLITE_BOOL) return {dlpack::kBool, bits, 1};
  if (dtype == HVDLITE_BFLOAT16) return {dlpack::kBfloat, bits, 1};
  if (dtype >= HVDLITE_FLOAT16) return {dlpack::kFloat, bits, 1};
  const bool is_signed = (dtype - HVDLITE_UINT8) % 2 == 1;
  return {static_cast<uint8_t>(is_signed ? dlpack::kInt : dlpack::kUInt), bits, 1};
}

// The content of a capsule, with the memory that its tensor points to.
template <typename Managed>
struct Lending {
  Managed held{};
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  std::shared_ptr<Memory> memory;
};

template <typename Managed>
void LetGo(Managed* held) {
  delete static_cast<Lending<Managed>*>(held->context);
}

// Destroys a capsule that was not consumed.
template <typename Managed>
void DestroyCapsule(PyObject* capsule) {
  const char* const name = PyCapsule_GetName(capsule);
  if (std::string(name).rfind("dltensor", 0) == 0)
    LetGo(static_cast<Managed*>(PyCapsule_GetPointer(capsule, name)));
}

class DeviceArray {
 public:
  DeviceArray(hvdlite_device_memory* memory, const hvdlite_tensor& tensor,
              std::vector<int64_t> shape)
      : memory_(std::make_shared<Memory>(memory)), tensor_(tensor), shape_(std::move(shape)) {}

  py::tuple shape() const { return py::tuple(py::cast(shape_)); }
  std::string dtype() const { return hvdlite_dtype_name(tensor_.dtype); }
  py::tuple Device() const {
    return py::make_tuple(static_cast<int>(dlpack::kCuda), tensor_.device_index);
  }

  // As in the array API standard: without a stream, the consumer uses the legacy default stream.
  // -1: the consumer synchronizes itself.
  py::object Lend(const std::optional<int64_t>& stream,
                  const std::optional<std::pair<int, int>>& version, const py::object& device,
                  const py::object& copy) const {
    if (stream == 0) throw py::value_error("stream 0 can mean two streams in CUDA; pass 1 or 2");
    const bool moves = !device.is_none() && !device.equal(Device());
    if (moves || (!copy.is_none() && copy.cast<bool>())) {
      PyErr_SetString(PyExc_BufferError,
                      "hvdlite cannot copy or move this array; do so in the framework");
      throw py::error_already_set();
    }
    if (stream != -1) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): DLPack tells streams as numbers
      void* const consumer = reinterpret_cast<void*>(stream.value_or(dlpack::kLegacyStream));
      ThrowIfError(hvdlite_follow_memory(memory_->memory, consumer));
    }
    const bool versioned = version && version->first >= 1;
    return versioned ? Capsule<dlpack::Versioned>("dltensor_versioned")
                     : Capsule<dlpack::Managed>("dltensor");
  }

 private:
  template <typename Managed>
  py::object Capsule(const char* name) const {
    auto lending = std::make_unique<Lending<Managed>>();
    lending->shape = shape_;
    lending->strides.resize(shape_.size());
    int64_t stride = 1;
    for (size_t i = shape_.size(); i-- > 0; stride *= shape_[i]) lending->strides[i] = stride;
    lending->memory = memory_;
    Managed& held = lending->held;
    if constexpr (std::is_same_v<Managed, dlpack::Versioned>) held.version = {1, 0};
    held.context = lending.get();
    held.deleter = &LetGo<Managed>;
    held.tensor.data = tensor_.data;
    held.tensor.device = {dlpack::kCuda, tensor_.device_index};
    held.tensor.ndim = static_cast<int32_t>(shape_.size());
    held.tensor.dtype = TypeOf(tensor_.dtype);
    held.tensor.shape = lending->shape.data();
    held.tensor.strides = lending->strides.data();
    PyObject* const capsule = PyCapsule_New(&held, name, &DestroyCapsule<Managed>);
    if (capsule == nullptr) throw py::error_already_set();
    lending.release();  // the capsule owns it now
    return py::reinterpret_steal<py::object>(capsule);
  }

  const std::shared_ptr<Memory> memory_;
  const hvdlite_tensor tensor_;  // its shape is unused
  const std::vector<int64_t> shape_;
};

}  // namespace

py::object MakeDeviceArray(hvdlite_device_memory* memory, const hvdlite_tensor& tensor,
                           const std::vector<py::ssize_t>& shape) {
  return py::cast(DeviceArray(memory, tensor, std::vector<int64_t>(shape.begin(), shape.end())));
}

void BindDeviceArrays(py::module_& module) {
  py::class_<DeviceArray>(module, "DeviceArray",
                          "A result on a GPU, for a framework's from_dlpack().")
      .def_property_readonly("shape", &DeviceArray::shape)
      .def_property_readonly("dtype", &DeviceArray::dtype, "Its name: \"bfloat16\".")
      .def("__dlpack_device__", &DeviceArray::Device)
      .def("__dlpack__", &DeviceArray::Lend, py::kw_only(), py::arg("stream") = py::none(),
           py::arg("max_version") = py::none(), py::arg("dl_device") = py::none(),
           py::arg("copy") = py::none());
  module.def(
      "check_gpus", [] { ThrowIfError(hvdlite_can_use_gpus()); },
      "NotImplementedError, with the reason, if operations do not accept GPU tensors.");
}

}  // namespace hvdlite::bindings
