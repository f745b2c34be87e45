// The kernels of csrc/kernels/cuda, compiled for this processor: what the fake driver's
// cuLaunchKernel runs.
//
// A block has one thread here, whatever the launch asked for: kernels must not depend on how many
// threads a block has.
#pragma once

#include <functional>
#include <string_view>

namespace hvdlite::fake_gpu {

// What a launch does, with its parameters copied: to be called when the stream has come to it, for
// each block from 0 to grid - 1.
using Blocks = std::function<void(unsigned block, unsigned grid)>;

// Copies the parameters of a launch, as cuLaunchKernel is given them.
using Bind = Blocks (*)(void** parameters);

// Null: there is no kernel of that name.
Bind FindKernel(std::string_view name);

}  // namespace hvdlite::fake_gpu
