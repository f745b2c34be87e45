// All kernels, as one image. csrc/kernels/gpu.cc launches them; compile.py compiles them.
#include "kernels/cuda/adasum.cuh"
#include "kernels/cuda/codecs.cuh"
#include "kernels/cuda/move.cuh"

#define HVDLITE_KERNEL(name, Parameters, ...)                                    \
  extern "C" __global__ void __launch_bounds__(hvdlite::kernels::cuda::kThreads) \
      name(const __grid_constant__ hvdlite::kernels::cuda::Parameters list) {    \
    using namespace hvdlite::kernels::cuda;                                      \
    __VA_ARGS__(list);                                                           \
  }
#include "kernels/cuda/kernels.def"
#undef HVDLITE_KERNEL
