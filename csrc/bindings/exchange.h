// The quick way to a tensor's memory: the table of C functions that frameworks put on their tensor
// types (torch from 2.10 on), a tenth of the price of a capsule.
#pragma once

#include <pybind11/pybind11.h>

#include "bindings/dlpack.h"

namespace hvdlite::bindings {

// The table of the object's type; null if there is none.
const dlpack::Exchange* ExchangeOf(const pybind11::handle& object);

// The stream that the framework puts its work on here and now. False: it does not say.
bool CurrentStream(const dlpack::Exchange& exchange, int device, void** stream);

// False if the object's type has no such table, or the table cannot serve this object (then
// __dlpack__ says why).
bool BorrowByExchange(const pybind11::handle& object, dlpack::Tensor* out);

}  // namespace hvdlite::bindings
