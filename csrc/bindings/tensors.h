// Borrows the memory of a Python object without a copy and without knowing any framework: numpy
// arrays through numpy's own interface, everything else through DLPack.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <array>
#include <vector>

#include "api/hvdlite.h"
#include "bindings/dlpack.h"

namespace hvdlite::bindings {

// A tensor lent by Python. `owner` keeps the memory alive if the object itself does not; hold both
// until the operation is done. Not movable: the tensor points to its own dimensions.
class BorrowedTensor {
 public:
  BorrowedTensor() = default;
  BorrowedTensor(const BorrowedTensor&) = delete;
  BorrowedTensor& operator=(const BorrowedTensor&) = delete;

  // Call once. Throws TypeError if the object is no tensor or has a dtype that hvdlite does not
  // know.
  void Borrow(const pybind11::handle& object);

  hvdlite_tensor tensor{};
  bool on_gpu() const { return tensor.device_kind != 0; }
  // On a GPU: the stream whose work so far produces the values, and the table that reports the
  // current stream; null if there is none.
  void* producer = nullptr;
  const dlpack::Exchange* exchange = nullptr;

  bool contiguous = true;
  bool writable = true;
  pybind11::object owner;

 private:
  void BorrowArray(PyObject* array);
  bool TryExchange(const pybind11::handle& object);
  void BorrowCapsule(const pybind11::handle& object);
  void BorrowDlpack(const dlpack::Tensor& lent);
  void SetShape(const int64_t* dimensions, int count);

  std::array<int64_t, 6> few_;
  std::vector<int64_t> many_;
};

size_t BytesOf(const hvdlite_tensor& tensor);

// Whether an object lends its memory without a call of Python.
bool LendsQuickly(const pybind11::handle& object);

// The numpy dtype of a dtype number. numpy has no bfloat16: its bits come as int16, and the caller,
// which sent bfloat16, reinterprets them.
pybind11::dtype NumpyDType(int32_t dtype);

}  // namespace hvdlite::bindings
