// The kernels of csrc/kernels/cuda as this build carries them: compiled at build time by nvcc, or
// by NVRTC, or not at all (csrc/kernels/cuda/compile.py chooses), once for each architecture.
//
// Thread-safety: pure functions over constants.
#pragma once

#include <span>

namespace hvdlite::kernels::cuda {

struct Image {
  int major = 0, minor = 0;  // the compute capability that it was compiled for
  // PTX is compiled anew by the driver, for every device from that capability on; machine code runs
  // on devices of the same major number whose minor number is not smaller.
  bool ptx = false;
  const void* data = nullptr;  // as cuModuleLoadData takes it
  size_t bytes = 0;
};

// Everything that this build carries.
std::span<const Image> Images();
// What compiled them: "nvcc 13.0", "NVRTC 13.5"; "" when nothing did.
const char* Compiler();

// The best of `images` for a device of that compute capability: machine code before PTX, the
// nearest before others. Null: there is none.
const Image* ChooseImage(std::span<const Image> images, int major, int minor);

}  // namespace hvdlite::kernels::cuda
