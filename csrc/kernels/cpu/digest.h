// The function of kernels/digest.h with the table of kernels as an argument. So tests can run every
// instruction set that this CPU has.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/table.h"

namespace hvdlite::kernels::cpu {

uint64_t Digest(const KernelTable& table, const void* data, size_t bytes);

}  // namespace hvdlite::kernels::cpu
