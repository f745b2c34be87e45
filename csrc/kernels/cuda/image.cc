#include "kernels/cuda/image.h"

#include <vector>

// The bytes of each image. .incbin puts a file into the object unchanged.
#define HVDLITE_KERNEL_COMPILER(name)
#define HVDLITE_KERNEL_IMAGE(architecture, major, minor, ptx, bytes, path) \
  asm(".pushsection .rodata\n"                                             \
      ".balign 64\n"                                                       \
      "hvdlite_kernels_" #architecture                                     \
      ":\n"                                                                \
      ".incbin \"" path                                                    \
      "\"\n"                                                               \
      ".byte 0\n" /* PTX is a text */                                      \
      ".popsection\n");                                                    \
  extern "C" __attribute__((visibility("hidden"))) const char hvdlite_kernels_##architecture[];
#include "kernels/cuda/images.inc"
#undef HVDLITE_KERNEL_IMAGE
#undef HVDLITE_KERNEL_COMPILER

namespace hvdlite::kernels::cuda {

std::span<const Image> Images() {
#define HVDLITE_KERNEL_COMPILER(name)
#define HVDLITE_KERNEL_IMAGE(architecture, major, minor, ptx, bytes, path) \
  {major, minor, ptx, hvdlite_kernels_##architecture, bytes},
  static const std::vector<Image> images = {
#include "kernels/cuda/images.inc"
  };
#undef HVDLITE_KERNEL_IMAGE
#undef HVDLITE_KERNEL_COMPILER
  return images;
}

const char* Compiler() {
#define HVDLITE_KERNEL_COMPILER(name) name
#define HVDLITE_KERNEL_IMAGE(architecture, major, minor, ptx, bytes, path)
  return
#include "kernels/cuda/images.inc"
      ;
#undef HVDLITE_KERNEL_IMAGE
#undef HVDLITE_KERNEL_COMPILER
}

const Image* ChooseImage(std::span<const Image> images, int major, int minor) {
  const Image* best = nullptr;
  for (const Image& image : images) {
    const int of_image = 10 * image.major + image.minor, of_device = 10 * major + minor;
    const bool runs = of_image <= of_device && (image.ptx || image.major == major);
    if (!runs) continue;
    const bool better = best == nullptr || (best->ptx && !image.ptx) ||
                        (best->ptx == image.ptx && of_image > 10 * best->major + best->minor);
    if (better) best = &image;
  }
  return best;
}

}  // namespace hvdlite::kernels::cuda
