// A result on a GPU that the library has allocated, as Python sees it: something that every
// framework's from_dlpack() takes.
#pragma once

#include <pybind11/pybind11.h>

#include <vector>

#include "api/hvdlite.h"

namespace hvdlite::bindings {

// Takes the memory over.
pybind11::object MakeDeviceArray(hvdlite_device_memory* memory, const hvdlite_tensor& tensor,
                                 const std::vector<pybind11::ssize_t>& shape);

}  // namespace hvdlite::bindings
