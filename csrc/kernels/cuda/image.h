// The kernels of csrc/kernels/cuda in this build. They are compiled at build time, once for each
// architecture, by nvcc or NVRTC, or not at all (csrc/kernels/cuda/compile.py chooses).
//
// Thread-safety: pure functions over constants.
#pragma once

#include <span>

namespace hvdlite::kernels::cuda {

struct Image {
  int major = 0, minor = 0;  // the compute capability it was compiled for
  // The driver compiles PTX for every device from that capability on. Machine code runs on devices
  // of the same major number whose minor number is not smaller.
  bool ptx = false;
  const void* data = nullptr;  // as cuModuleLoadData takes it
  size_t bytes = 0;
};

// All images of this build.
std::span<const Image> Images();
// The compiler of the images: "nvcc 13.0", "NVRTC 13.5", or "" if there are none.
const char* Compiler();

// The best of `images` for a device of that compute capability: machine code before PTX, then the
// nearest capability. Null if none fits.
const Image* ChooseImage(std::span<const Image> images, int major, int minor);

}  // namespace hvdlite::kernels::cuda
