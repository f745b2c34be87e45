// Registers the handlers in TensorFlow's own XLA (TensorFlow >= 2.18). JAX has a Python function
// for that.
#include <dlfcn.h>

#include <string>

#include "api/hvdlite.h"
#include "ingraph/xla_ffi.h"

extern "C" hvdlite::ingraph::ffi::Error* hvdlite_xla_collective(
    hvdlite::ingraph::ffi::CallFrame* frame);
extern "C" hvdlite::ingraph::ffi::Error* hvdlite_xla_collective_on_cuda(
    hvdlite::ingraph::ffi::CallFrame* frame);

namespace hvdlite::ingraph {
namespace {

// xla::ffi::GetXlaFfiApi() is the only function of TensorFlow's XLA that is found by its C++ name.
// It returns a C table.
constexpr char kGetApi[] = "_ZN3xla3ffi12GetXlaFfiApiEv";

// Searches TensorFlow's own libraries, because others in the process may contain an XLA, too.
const ffi::Api* FindApi() {
  for (const char* name : {"libtensorflow_cc.so.2", "libtensorflow_framework.so.2"}) {
    void* const library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) continue;
    if (void* found = dlsym(library, kGetApi)) {
      const auto* const api = reinterpret_cast<const ffi::Api* (*)()>(found)();
      return ffi::IsKnown(*api) ? api : nullptr;
    }
  }
  return nullptr;
}

ffi::ByteSpan Span(const std::string& text) {
  return {text.data(), text.size()};
}

std::string Register(const std::string& target, const std::string& platform,
                     ffi::Handler* handler) {
  const ffi::Api* const api = FindApi();
  if (api == nullptr)
    return "the XLA of this version of TensorFlow does not offer custom calls (2.18 and later do)";
  ffi::RegisterArguments arguments{};
  arguments.struct_size = sizeof(arguments);
  arguments.name = Span(target);
  arguments.platform = Span(platform);
  arguments.execute = handler;
  ffi::Error* const error = api->register_handler(&arguments);
  if (error == nullptr) return "";
  ffi::ErrorMessageArguments message{sizeof(message), nullptr, error, nullptr};
  api->error_message(&message);
  const std::string refused =
      std::string("TensorFlow's XLA refuses hvdlite's custom call: ") + message.message;
  ffi::DestroyErrorArguments destroy{sizeof(destroy), nullptr, error};
  api->destroy_error(&destroy);
  return refused;
}

}  // namespace
}  // namespace hvdlite::ingraph

// Registers the handlers under this name, the first time. Returns why they cannot be used, as part
// of a sentence; empty if they can.
extern "C" HVDLITE_API const char* hvdlite_xla_register_in_tensorflow(const char* target) {
  static const auto* const problem =
      new std::string(hvdlite::ingraph::Register(target, "Host", &hvdlite_xla_collective));
  return problem->c_str();
}

// The same for tensors on GPUs.
extern "C" HVDLITE_API const char* hvdlite_xla_register_in_tensorflow_on_cuda(const char* target) {
  static const auto* const problem =
      new std::string(hvdlite::ingraph::Register(target, "CUDA", &hvdlite_xla_collective_on_cuda));
  return problem->c_str();
}
