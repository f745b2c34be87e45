// The functions of kernels/reduce.h, which has the contracts, with the table of kernels as an
// argument. So tests can run every instruction set that this CPU has.
#pragma once

#include <cstdint>

#include "kernels/cpu/table.h"
#include "kernels/reduce.h"

namespace hvdlite::kernels::cpu {

void Reduce(const KernelTable& table, const ReduceSpec& spec, void* destination, void* second,
            const void* const* sources, int n, int64_t count);
void ReduceToFloat(const KernelTable& table, const ReduceSpec& spec, float* destination,
                   const void* const* sources, int n, int64_t count);
void RoundFromFloat(const KernelTable& table, DType dtype, void* destination, const float* source,
                    int64_t count);
void Scale(const KernelTable& table, DType dtype, void* data, int64_t count, double factor);
void Finish(const KernelTable& table, const ReduceSpec& spec, void* data, int64_t count);

}  // namespace hvdlite::kernels::cpu
