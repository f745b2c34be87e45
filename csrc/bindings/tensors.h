// From a Python object to the memory it stands for, without a copy and without knowing any framework: numpy arrays
// through numpy's own interface, everything else through DLPack.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <vector>

#include "api/hvdlite.h"

namespace hvdlite::bindings {

// A tensor lent by Python. `owner` keeps the memory alive: hold it until the operation is done.
struct Lent {
  hvdlite_tensor tensor{};
  std::vector<int64_t> shape;
  bool contiguous = true;
  bool writable = true;
  pybind11::object owner;

  // The shape's address changes when a Lent is moved: call this last.
  const hvdlite_tensor& view() {
    tensor.shape = shape.data();
    return tensor;
  }
};

// TypeError if the object is no tensor or has a dtype that hvdlite does not know.
Lent Lend(const pybind11::handle& object);

// The numpy dtype of a dtype number. bfloat16 needs the package ml_dtypes; without it, TypeError.
pybind11::dtype NumpyDType(int32_t dtype);

}  // namespace hvdlite::bindings
