// CUDA and NCCL of this machine, without a job: for built.py and `hvdliterun --check-build`.
#include <string>

#include "bindings/bindings.h"
#include "bindings/unlocked.h"

namespace hvdlite::bindings {
namespace py = pybind11;

namespace {

int32_t FindCuda(const std::string& library) {
  int32_t version = 0;
  ThrowIfError(WithoutLock([&] { return hvdlite_find_cuda(library.c_str(), &version); }));
  return version;
}

int32_t FindNccl(const std::string& wanted, const std::string& wheel) {
  int32_t version = 0;
  ThrowIfError(
      WithoutLock([&] { return hvdlite_find_nccl(wanted.c_str(), wheel.c_str(), &version); }));
  return version;
}

}  // namespace

void BindGpu(py::module_& module) {
  module.def("find_cuda", &FindCuda, py::arg("library"),
             "Initialises the driver. Returns its CUDA version, 13000 for 13.0. "
             "NotImplementedError says why it cannot be used.");
  module.def("find_nccl", &FindNccl, py::arg("wanted"), py::arg("wheel"),
             "Loads the NCCL that this process would use. Returns its version, 22803 for 2.28.3. "
             "NotImplementedError says why there is none.");
}

}  // namespace hvdlite::bindings
