#include "ingraph/tensorflow_kernel.h"

#include <cstring>
#include <memory>

namespace hvdlite::ingraph {
namespace {

// Reads attributes until one fails. The first failure becomes the kernel's.
class Reader {
 public:
  explicit Reader(TfConstruction* construction) : construction_(construction) {}

  int64_t Int(const char* name) {
    int64_t value = 0;
    if (status_.ok())
      TensorFlow().OpKernelConstruction_GetAttrInt64(construction_, name, &value, status_.get());
    return value;
  }
  double Double(const char* name) {
    const int64_t bits = Int(name);
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
  }
  std::string Text(const char* name) {
    int32_t list = 0, length = 0;
    if (status_.ok()) {
      TensorFlow().OpKernelConstruction_GetAttrSize(construction_, name, &list, &length,
                                                    status_.get());
    }
    std::string value(static_cast<size_t>(length), '\0');
    if (status_.ok()) {
      TensorFlow().OpKernelConstruction_GetAttrString(construction_, name, value.data(),
                                                      value.size(), status_.get());
    }
    return value;
  }
  // Reports the failure to TensorFlow, which then requests no computation.
  void Settle() {
    if (!status_.ok()) TensorFlow().OpKernelConstruction_Failure(construction_, status_.get());
  }

 private:
  TfConstruction* const construction_;
  ScopedStatus status_;
};

}  // namespace

void* CreateKernel(int32_t kind, TfConstruction* construction) {
  auto kernel = std::make_unique<Kernel>();
  Reader reader(construction);
  kernel->kind = kind;
  kernel->op = reader.Int("op");
  kernel->process_set = reader.Int("process_set");
  kernel->root = reader.Int("root");
  kernel->prescale = reader.Double("prescale_bits");
  kernel->postscale = reader.Double("postscale_bits");
  kernel->grouped = reader.Int("grouped");
  kernel->name = reader.Text("tensor_name");
  reader.Settle();
  return kernel.release();
}

void DeleteKernel(void* kernel) {
  delete static_cast<Kernel*>(kernel);
}

}  // namespace hvdlite::ingraph
