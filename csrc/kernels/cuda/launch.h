// Starts a kernel of kernels.def on a GPU's stream, without waiting. Failure: kUnsupported when no
// kernel of this build runs on the device; otherwise the driver's description.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "device/gpu.h"

namespace hvdlite::kernels::cuda {

// Finds the kernel; the first call loads all kernels.
Status Load(device::Gpu* gpu, const std::string& kernel, device::Function* function);

// `parameters` is the kernel's one parameter.
Status Launch(device::Gpu* gpu, const std::string& kernel, unsigned blocks, void* parameters);

// The number of pieces, which is the number of blocks.
unsigned PiecesOf(int64_t elements, size_t element_bytes);

}  // namespace hvdlite::kernels::cuda
