// Starts a kernel of kernels.def on a GPU's stream. Nothing is waited for. Failure: kUnsupported
// when no kernel of this build runs on the device; the driver's words otherwise.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "device/gpu.h"

namespace hvdlite::kernels::cuda {

// Finds the kernel; the first call loads them all.
Status Load(device::Gpu* gpu, const std::string& kernel, device::Function* function);

// `parameters`: the kernel's one parameter.
Status Launch(device::Gpu* gpu, const std::string& kernel, unsigned blocks, void* parameters);

// How many pieces that is, and so how many blocks.
unsigned PiecesOf(int64_t elements, size_t element_bytes);

}  // namespace hvdlite::kernels::cuda
