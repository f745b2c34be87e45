// The fast path to a tensor's memory: a table of C functions that frameworks attach to their tensor
// types (torch from 2.10 on). It costs a tenth of a capsule.
#pragma once

#include <pybind11/pybind11.h>

#include "bindings/dlpack.h"

namespace hvdlite::bindings {

// The table of the object's type; null if there is none.
const dlpack::Exchange* ExchangeOf(const pybind11::handle& object);

// The framework's current stream in this thread. Returns false if the framework does not report it.
bool CurrentStream(const dlpack::Exchange& exchange, int device, void** stream);

// Returns false if the object's type has no such table, or if the table cannot serve this object.
// __dlpack__ then reports why.
bool BorrowByExchange(const pybind11::handle& object, dlpack::Tensor* out);

}  // namespace hvdlite::bindings
