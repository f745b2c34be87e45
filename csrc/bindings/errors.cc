// Turns a status into a Python exception. The classes are those of hvdlite.exceptions.
#include "bindings/bindings.h"

namespace hvdlite::bindings {
namespace py = pybind11;

namespace {

const char* ExceptionName(hvdlite_code code) {
  switch (code) {
    case HVDLITE_NOT_INITIALIZED: return "NotInitializedError";
    case HVDLITE_MISMATCH: return "MismatchError";
    case HVDLITE_PEER_LOST: return "PeerLostError";
    case HVDLITE_SHUT_DOWN: return "ShutDownError";
    case HVDLITE_DUPLICATE_NAME: return "DuplicateNameError";
    default: return "HorovodInternalError";
  }
}

}  // namespace

void ThrowIfError(hvdlite_code code) {
  if (code == HVDLITE_OK) return;
  const std::string message = hvdlite_last_error();
  const int peer = hvdlite_last_error_peer();
  PyObject* const builtin = code == HVDLITE_INVALID_ARGUMENT ? PyExc_ValueError
                            : code == HVDLITE_UNSUPPORTED    ? PyExc_NotImplementedError
                            : code == HVDLITE_TIMEOUT        ? PyExc_TimeoutError
                                                             : nullptr;
  if (builtin != nullptr) {
    PyErr_SetString(builtin, message.c_str());
    throw py::error_already_set();
  }
  const py::object type = py::module_::import("hvdlite.exceptions").attr(ExceptionName(code));
  const py::object error = code == HVDLITE_PEER_LOST ? type(message, peer) : type(message);
  PyErr_SetObject(type.ptr(), error.ptr());
  throw py::error_already_set();
}

void BindErrors(py::module_& module) {
  module.def("simd", &hvdlite_simd, "The instruction set the kernels use.");
  module.def("gpu_kernels", &hvdlite_gpu_kernels,
             "The compiler of the GPU kernels: 'nvcc 13.0'; '' if this build has none.");
}

}  // namespace hvdlite::bindings
