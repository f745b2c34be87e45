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

py::tuple RanksOfLastError() {
  int32_t ranks[64];
  const int32_t n = hvdlite_last_error_ranks(ranks, 64);
  py::tuple all(n);
  for (int32_t i = 0; i < n; ++i) all[static_cast<size_t>(i)] = ranks[i];
  return all;
}

// What the calling thread's last error says of a lost rank.
py::object LossOfLastError() {
  const py::object loss = py::module_::import("hvdlite.exceptions").attr("Loss");
  return loss(hvdlite_last_error_cause(), RanksOfLastError());
}

}  // namespace

void ThrowIfError(hvdlite_code code) {
  if (code == HVDLITE_OK) return;
  const std::string message = hvdlite_last_error();
  const py::handle builtin = code == HVDLITE_INVALID_ARGUMENT ? PyExc_ValueError
                             : code == HVDLITE_UNSUPPORTED    ? PyExc_NotImplementedError
                             : code == HVDLITE_TIMEOUT        ? PyExc_TimeoutError
                                                              : nullptr;
  const py::object type = builtin
                              ? py::reinterpret_borrow<py::object>(builtin)
                              : py::module_::import("hvdlite.exceptions").attr(ExceptionName(code));
  const py::object error = type(message);
  if (code == HVDLITE_PEER_LOST || code == HVDLITE_TIMEOUT) {
    error.attr("rank") = hvdlite_last_error_peer();
    error.attr("loss") = LossOfLastError();
  }
  PyErr_SetObject(type.ptr(), error.ptr());
  throw py::error_already_set();
}

void BindErrors(py::module_& module) {
  module.def(
      "loss",
      []() -> py::object {
        return hvdlite_health() == HVDLITE_OK ? py::none() : LossOfLastError();
      },
      "Which rank was lost and why, if the job has failed; None: it has not.");
  module.def("simd", &hvdlite_simd, "The instruction set the kernels use.");
  module.def("gpu_kernels", &hvdlite_gpu_kernels,
             "The compiler of the GPU kernels: 'nvcc 13.0'; '' if this build has none.");
}

}  // namespace hvdlite::bindings
