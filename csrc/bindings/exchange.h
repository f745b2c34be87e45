// The quick way to a tensor's memory: the table of C functions that frameworks put on their tensor types (torch from 2.10
// on), a tenth of the price of a capsule.
#pragma once

#include <pybind11/pybind11.h>

#include "bindings/dlpack.h"

namespace hvdlite::bindings {

// False if the object's type has no such table, or the table cannot serve this object (then __dlpack__ says why).
bool BorrowByExchange(const pybind11::handle& object, dlpack::Tensor* out);

}  // namespace hvdlite::bindings
