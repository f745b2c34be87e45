// The parts of the Python module _core. This folder alone knows Python; it uses the library through
// api/hvdlite.h only.
#pragma once

#include <pybind11/pybind11.h>

#include "api/hvdlite.h"

namespace hvdlite::bindings {

void BindLife(pybind11::module_& module);           // init, shutdown, rank, ...
void BindOperations(pybind11::module_& module);     // submit, wait, poll, ...
void BindLists(pybind11::module_& module);          // groups of tensors
void BindEncoded(pybind11::module_& module);        // allreduces by a codec
void BindGradientHooks(pybind11::module_& module);  // allreduce of gradients, by hooks
void BindDeviceArrays(pybind11::module_& module);   // results on a GPU
void BindObservation(pybind11::module_& module);    // timeline, metrics, ...
void BindGpu(pybind11::module_& module);            // CUDA and NCCL of this machine
void BindPool(pybind11::module_& module);           // gradients in shared memory
void BindDigests(pybind11::module_& module);        // digests of tensors
void BindSparse(pybind11::module_& module);         // sparse gradients
void BindErrors(pybind11::module_& module);

// Throws the Python exception for `code` and the calling thread's last error, unless code is
// HVDLITE_OK.
void ThrowIfError(hvdlite_code code);

}  // namespace hvdlite::bindings
