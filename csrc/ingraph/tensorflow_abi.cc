#include "ingraph/tensorflow_abi.h"

#include <dlfcn.h>

#include <vector>

namespace hvdlite::ingraph {
namespace {

// The framework's library comes first. In some versions the other one has copies of its functions
// that do not share its registries.
std::vector<void*> Loaded() {
  std::vector<void*> libraries;
  for (const char* name : {"libtensorflow_framework.so.2", "libtensorflow_cc.so.2"}) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_NOLOAD)) libraries.push_back(library);
  }
  libraries.push_back(RTLD_DEFAULT);
  return libraries;
}

template <typename Function>
void Find(const std::vector<void*>& libraries, const char* name, Function* function,
          std::string* missing) {
  for (void* library : libraries) {
    if (void* found = dlsym(library, name)) {
      *function = reinterpret_cast<Function>(found);
      return;
    }
  }
  *missing += missing->empty() ? name : std::string(", ") + name;
}

// Whether TensorFlow can run a Done of ours, as it runs those that it passes to kernels.
bool DoneIsAsExpected(const Tf& tf) {
  int hits = 0;
  Done probe([](void* count) { ++*static_cast<int*>(count); }, &hits);
  tf.RunAsyncOpKernelDoneCallback(reinterpret_cast<TfDone*>(&probe));
  return hits == 1;
}

Tf Look() {
  Tf tf;
  const std::vector<void*> libraries = Loaded();
  std::string missing;
#define HVDLITE_TF_FIND(result, name, parameters) Find(libraries, "TF_" #name, &tf.name, &missing);
  HVDLITE_TF_FUNCTIONS(HVDLITE_TF_FIND)
#undef HVDLITE_TF_FIND
  if (tf.NewStatus == nullptr) {
    tf.problem = "TensorFlow is not loaded in this process, or exports none of its C functions";
  } else if (!missing.empty()) {
    tf.problem = "this version of TensorFlow does not export " + missing;
  } else if (!DoneIsAsExpected(tf)) {
    tf.problem =
        "this version of TensorFlow ends asynchronous kernels in a way that hvdlite does not know";
  }
  return tf;
}

}  // namespace

const Tf& TensorFlow() {
  static const Tf* const tf = new Tf(Look());
  return *tf;
}

}  // namespace hvdlite::ingraph
