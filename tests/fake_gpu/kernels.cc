#include "fake_gpu/kernels.h"

#include <map>
#include <string>

#include "fake_gpu/cuda_on_host.h"
#include "kernels/cuda/kernels.cu"

namespace hvdlite::fake_gpu {
namespace {

template <class Parameters, void (*kKernel)(Parameters)>
Blocks BindTo(void** parameters) {
  const Parameters copy = *static_cast<const Parameters*>(parameters[0]);
  return [copy](unsigned block, unsigned grid) {
    blockIdx.x = block;
    gridDim.x = grid;
    kKernel(copy);
  };
}

}  // namespace

Bind FindKernel(std::string_view name) {
  static const std::map<std::string, Bind, std::less<>> kernels = {
#define HVDLITE_KERNEL(kernel, Parameters, ...) \
  {#kernel, BindTo<kernels::cuda::Parameters, kernel>},
#include "kernels/cuda/kernels.def"
#undef HVDLITE_KERNEL
  };
  const auto found = kernels.find(name);
  return found == kernels.end() ? nullptr : found->second;
}

}  // namespace hvdlite::fake_gpu
