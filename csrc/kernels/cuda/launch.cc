#include "kernels/cuda/launch.h"

#include <utility>

#include "kernels/cuda/image.h"
#include "kernels/cuda/parameters.h"

namespace hvdlite::kernels::cuda {
namespace {

// Finds the image of this build for this device.
Status ImageFor(const device::Gpu& gpu, const Image** image) {
  if (Images().empty()) return Status::Unsupported("this build of hvdlite has no GPU kernels");
  const device::Driver& driver = gpu.driver();
  device::DeviceNumber number = 0;
  int major = 0, minor = 0;
  HVDLITE_RETURN_IF_ERROR(
      driver.Check(driver.DeviceGet(&number, gpu.ordinal()), "looking for the GPU"));
  for (const auto& [attribute, value] :
       {std::pair{75, &major},
        std::pair{76, &minor}}) {  // cuda.h: COMPUTE_CAPABILITY_MAJOR, _MINOR
    const int code = driver.DeviceGetAttribute(value, attribute, number);
    HVDLITE_RETURN_IF_ERROR(driver.Check(code, "asking for the compute capability"));
  }
  *image = ChooseImage(Images(), major, minor);
  if (*image != nullptr) return Status::Ok();
  return Status::Unsupported("hvdlite's GPU kernels do not run on " + gpu.name() +
                             ": its compute capability " + std::to_string(major) + '.' +
                             std::to_string(minor) + " is too old for them");
}

}  // namespace

Status Load(device::Gpu* gpu, const std::string& kernel, device::Function* function) {
  const Image* image = nullptr;
  HVDLITE_RETURN_IF_ERROR(ImageFor(*gpu, &image));
  return gpu->Kernel(image->data, kernel, function);
}

Status Launch(device::Gpu* gpu, const std::string& kernel, unsigned blocks, void* parameters) {
  device::Function function = nullptr;
  HVDLITE_RETURN_IF_ERROR(Load(gpu, kernel, &function));
  const device::Gpu::Current current(*gpu);
  HVDLITE_RETURN_IF_ERROR(current.status());
  const int code = gpu->driver().LaunchKernel(function, blocks, 1, 1, kThreads, 1, 1, 0,
                                              gpu->stream(), &parameters, nullptr);
  return gpu->driver().Check(code, "starting the kernel " + kernel);
}

unsigned PiecesOf(int64_t elements, size_t element_bytes) {
  const int64_t per_piece = kPieceBytes / static_cast<int64_t>(element_bytes);
  return static_cast<unsigned>((elements + per_piece - 1) / per_piece);
}

}  // namespace hvdlite::kernels::cuda
