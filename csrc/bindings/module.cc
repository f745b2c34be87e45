#include "bindings/bindings.h"

PYBIND11_MODULE(_core, module, pybind11::mod_gil_not_used()) {
  module.doc() =
      "hvdlite's native core. Use the functions of the package hvdlite; this module may change at "
      "any time.";
  hvdlite::bindings::BindErrors(module);
  hvdlite::bindings::BindGpu(module);
  hvdlite::bindings::BindLife(module);
  hvdlite::bindings::BindOperations(module);
  hvdlite::bindings::BindLists(module);
  hvdlite::bindings::BindEncoded(module);
  hvdlite::bindings::BindGradientHooks(module);
  hvdlite::bindings::BindDeviceArrays(module);
  hvdlite::bindings::BindObservation(module);
  hvdlite::bindings::BindPool(module);
  hvdlite::bindings::BindDigests(module);
  hvdlite::bindings::BindSparse(module);
}
