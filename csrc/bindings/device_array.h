// A result on a GPU that the library has allocated, as a Python object for every framework's
// from_dlpack().
#pragma once

#include <pybind11/pybind11.h>

#include <vector>

#include "api/hvdlite.h"

namespace hvdlite::bindings {

// Takes ownership of the memory.
pybind11::object MakeDeviceArray(hvdlite_device_memory* memory, const hvdlite_tensor& tensor,
                                 const std::vector<pybind11::ssize_t>& shape);

}  // namespace hvdlite::bindings
