// Encoded allreduces: what hvdlite/adapter calls when a tensor has a codec.
#include <pybind11/stl.h>

#include <optional>
#include <string>

#include "bindings/bindings.h"
#include "bindings/borrowed.h"

namespace hvdlite::bindings {
namespace py = pybind11;

namespace {

py::dict Codecs() {
  py::dict codecs;
  for (int32_t number = 1; hvdlite_codec_name(number) != nullptr; ++number)
    codecs[hvdlite_codec_name(number)] = py::make_tuple(number, hvdlite_codec_parameter(number));
  return codecs;
}

int64_t EncodedBytes(int32_t codec, double parameter, int64_t count) {
  const int64_t bytes = hvdlite_encoded_bytes(codec, parameter, count);
  if (bytes < 0) throw py::value_error("no codec has this number and this parameter");
  return bytes;
}

int64_t SubmitEncoded(int op, int set, const std::optional<std::string>& name,
                      const py::object& input, const py::object& output, double prescale,
                      double postscale, int32_t codec, double parameter, const py::object& residual,
                      uint64_t seed, uint64_t step, bool patient) {
  Call call;
  call.DescribeAllreduce(op, set, name, prescale, postscale, patient);
  hvdlite_operation& operation = call.operation;
  operation.codec = codec;
  operation.codec_parameter = parameter;
  operation.codec_seed = seed;
  operation.codec_step = step;
  call.Borrow(input, output);
  call.BorrowResidual(residual);
  return SubmitAndKeep(input, output, &call);
}

}  // namespace

void BindEncoded(py::module_& module) {
  module.def("codecs", &Codecs, "Number and name of the parameter (empty: none), by name.");
  module.def("encoded_bytes", &EncodedBytes, py::arg("codec"), py::arg("parameter"),
             py::arg("count"));
  module.def("submit_encoded", &SubmitEncoded, py::arg("op"), py::arg("process_set"),
             py::arg("name"), py::arg("input"), py::arg("output"), py::arg("prescale"),
             py::arg("postscale"), py::arg("codec"), py::arg("parameter"), py::arg("residual"),
             py::arg("seed"), py::arg("step"), py::arg("patient"),
             "An allreduce by a codec. Returns a handle for wait().");
}

}  // namespace hvdlite::bindings
