#include "bindings/tensors.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "bindings/dlpack.h"
#include "bindings/exchange.h"

namespace hvdlite::bindings {
namespace py = pybind11;

namespace {

// ml_dtypes' bfloat16 reports itself as a void type. numpy gives it a number, which saves another
// look at its name.
bool IsBFloat16(const py::dtype& dtype) {
  static std::atomic<int> known = -1;
  if (dtype.itemsize() != 2) return false;
  if (dtype.num() == known.load(std::memory_order_relaxed)) return true;
  if (py::str(dtype.attr("name")).cast<std::string>() != "bfloat16") return false;
  known.store(dtype.num(), std::memory_order_relaxed);
  return true;
}

// By kind and item size. -1 for types that hvdlite does not reduce (complex, datetime, objects,
// foreign byte order).
int32_t FromNumpy(const py::dtype& dtype) {
  const char order = dtype.byteorder();
  if (order == '>') return -1;
  const auto size = dtype.itemsize();
  switch (dtype.kind()) {
    case 'b': return HVDLITE_BOOL;
    case 'u':
      return size == 1   ? HVDLITE_UINT8
             : size == 2 ? HVDLITE_UINT16
             : size == 4 ? HVDLITE_UINT32
                         : HVDLITE_UINT64;
    case 'i':
      return size == 1   ? HVDLITE_INT8
             : size == 2 ? HVDLITE_INT16
             : size == 4 ? HVDLITE_INT32
                         : HVDLITE_INT64;
    case 'f':
      if (size == 2) return HVDLITE_FLOAT16;
      if (size == 4) return HVDLITE_FLOAT32;
      return size == 8 ? HVDLITE_FLOAT64 : -1;
    case 'V': return IsBFloat16(dtype) ? HVDLITE_BFLOAT16 : -1;
    default: return -1;
  }
}

int32_t FromDlpack(const dlpack::DataType& type) {
  if (type.lanes != 1) return -1;
  switch (type.code) {
    case dlpack::kBool: return HVDLITE_BOOL;
    case dlpack::kBfloat: return HVDLITE_BFLOAT16;
    case dlpack::kFloat:
      return type.bits == 16   ? HVDLITE_FLOAT16
             : type.bits == 32 ? HVDLITE_FLOAT32
             : type.bits == 64 ? HVDLITE_FLOAT64
                               : -1;
    case dlpack::kInt:
    case dlpack::kUInt: {
      const int shift = type.code == dlpack::kUInt ? 0 : 1;
      for (int i = 0; i < 4; ++i) {
        if (type.bits == 8 << i) return HVDLITE_UINT8 + 2 * i + shift;
      }
      return -1;
    }
    default: return -1;
  }
}

[[noreturn]] void Refuse(const std::string& what) {
  throw py::type_error(what);
}

}  // namespace

void BorrowedTensor::SetShape(const int64_t* dimensions, int count) {
  int64_t* mine = few_.data();
  if (static_cast<size_t>(count) > few_.size()) {
    many_.resize(static_cast<size_t>(count));
    mine = many_.data();
  }
  std::copy_n(dimensions, count, mine);
  tensor.shape = mine;
  tensor.ndim = count;
}

void BorrowedTensor::BorrowArray(PyObject* object) {
  const auto array = py::reinterpret_borrow<py::array>(object);
  const py::dtype dtype = array.dtype();
  tensor.dtype = FromNumpy(dtype);
  if (tensor.dtype < 0) {
    Refuse("arrays of dtype " + py::str(dtype).cast<std::string>() +
           " cannot be communicated; cast to bool, an integer type, float16, bfloat16, float32 or "
           "float64");
  }
  tensor.data = const_cast<void*>(array.data());
  SetShape(array.shape(), static_cast<int>(array.ndim()));
  contiguous = (array.flags() & py::array::c_style) != 0;
  writable = array.writeable();
}

void BorrowedTensor::BorrowDlpack(const dlpack::Tensor& lent) {
  tensor.dtype = FromDlpack(lent.dtype);
  if (tensor.dtype < 0)
    Refuse("a tensor of this dtype cannot be communicated (complex, packed or quantised?)");
  const bool host = lent.device.type == dlpack::kCpu || lent.device.type == dlpack::kCudaHost;
  if (!host && lent.device.type != dlpack::kCuda && lent.device.type != dlpack::kCudaManaged) {
    PyErr_SetString(PyExc_NotImplementedError,
                    "hvdlite communicates tensors in host memory and on CUDA GPUs; copy the tensor "
                    "to the CPU first");
    throw py::error_already_set();
  }
  tensor.data = static_cast<char*>(lent.data) + lent.byte_offset;
  tensor.device_kind = host ? 0 : 1;
  tensor.device_index = lent.device.id;
  SetShape(lent.shape, lent.ndim);
  if (lent.strides == nullptr) return;
  int64_t expected = 1;
  for (int i = lent.ndim - 1; i >= 0; --i) {
    if (lent.shape[i] != 1 && lent.strides[i] != expected) contiguous = false;
    expected *= lent.shape[i];
  }
  if (expected == 0) contiguous = true;  // no elements, no order
}

namespace {

// Calls the object's __dlpack__. The capsule stays unconsumed: its own destructor releases the
// tensor.
py::object Capsule(const py::handle& object, py::kwargs arguments) {
  const py::object lend = object.attr("__dlpack__");
  arguments["max_version"] = py::make_tuple(1, 0);  // the first version that can say "read-only"
  try {
    return lend(**arguments);
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError)) throw;
    PyDict_DelItemString(arguments.ptr(),
                         "max_version");  // from before that version, and before its keyword
    return lend(**arguments);
  }
}

const dlpack::Tensor& Content(const py::object& capsule, bool* writable) {
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor")) {
    return static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"))->tensor;
  }
  if (!PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
    Refuse("__dlpack__() returned something that is not a DLPack capsule");
  }
  auto* versioned =
      static_cast<dlpack::Versioned*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
  *writable = (versioned->flags & dlpack::kReadOnly) == 0;
  return versioned->tensor;
}

}  // namespace

void BorrowedTensor::BorrowCapsule(const py::handle& object) {
  owner = Capsule(object, py::kwargs());
  const dlpack::Tensor* lent = &Content(owner, &writable);
  if (lent->device.type == dlpack::kCuda || lent->device.type == dlpack::kCudaManaged) {
    // Call it again, now with the promise that the values are ready for the legacy default stream.
    py::kwargs with_stream;
    with_stream["stream"] = dlpack::kLegacyStream;
    owner = Capsule(object, with_stream);
    lent = &Content(owner, &writable);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): CUDA names this stream by a number
    producer = reinterpret_cast<void*>(static_cast<intptr_t>(dlpack::kLegacyStream));
  }
  BorrowDlpack(*lent);
}

bool BorrowedTensor::TryExchange(const py::handle& object) {
  dlpack::Tensor lent;
  if (!BorrowByExchange(object, &lent)) return false;
  if (lent.device.type != dlpack::kCpu) {
    exchange = ExchangeOf(object);
    const bool on_gpu_now =
        lent.device.type == dlpack::kCuda || lent.device.type == dlpack::kCudaManaged;
    if (on_gpu_now && !CurrentStream(*exchange, lent.device.id, &producer)) return false;
  }
  BorrowDlpack(lent);
  return true;
}

void BorrowedTensor::Borrow(const py::handle& object) {
  if (py::isinstance<py::array>(object)) return BorrowArray(object.ptr());
  if (TryExchange(object)) return;
  if (py::hasattr(object, "__dlpack__")) return BorrowCapsule(object);
  Refuse("expected a numpy array or an object with __dlpack__, got " +
         py::str(py::type::handle_of(object).attr("__name__")).cast<std::string>());
}

bool LendsQuickly(const py::handle& object) {
  return py::isinstance<py::array>(object) || ExchangeOf(object) != nullptr;
}

size_t BytesOf(const hvdlite_tensor& tensor) {
  auto bytes = static_cast<size_t>(hvdlite_dtype_size(tensor.dtype));
  for (int32_t d = 0; d < tensor.ndim; ++d) bytes *= static_cast<size_t>(tensor.shape[d]);
  return bytes;
}

py::dtype NumpyDType(int32_t dtype) {
  return py::dtype(hvdlite_dtype_name(dtype == HVDLITE_BFLOAT16 ? HVDLITE_INT16 : dtype));
}

}  // namespace hvdlite::bindings
